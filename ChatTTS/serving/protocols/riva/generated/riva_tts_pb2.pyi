# Made of riva/proto/riva_tts.proto by python riva/generate_messages.py: do not edit.

from . import riva_audio_pb2 as _riva_audio_pb2
from . import riva_common_pb2 as _riva_common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RivaSynthesisConfigRequest(_message.Message):
    __slots__ = ("model_name",)
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    def __init__(self, model_name: _Optional[str] = ...) -> None: ...

class RivaSynthesisConfigResponse(_message.Message):
    __slots__ = ("model_config",)
    class Config(_message.Message):
        __slots__ = ("model_name", "parameters")
        class ParametersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
        PARAMETERS_FIELD_NUMBER: _ClassVar[int]
        model_name: str
        parameters: _containers.ScalarMap[str, str]
        def __init__(self, model_name: _Optional[str] = ..., parameters: _Optional[_Mapping[str, str]] = ...) -> None: ...
    MODEL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    model_config: _containers.RepeatedCompositeFieldContainer[RivaSynthesisConfigResponse.Config]
    def __init__(self, model_config: _Optional[_Iterable[_Union[RivaSynthesisConfigResponse.Config, _Mapping]]] = ...) -> None: ...

class ZeroShotData(_message.Message):
    __slots__ = ("audio_prompt", "sample_rate_hz", "encoding", "quality", "transcript")
    AUDIO_PROMPT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    audio_prompt: bytes
    sample_rate_hz: int
    encoding: _riva_audio_pb2.AudioEncoding
    quality: int
    transcript: str
    def __init__(self, audio_prompt: _Optional[bytes] = ..., sample_rate_hz: _Optional[int] = ..., encoding: _Optional[_Union[_riva_audio_pb2.AudioEncoding, str]] = ..., quality: _Optional[int] = ..., transcript: _Optional[str] = ...) -> None: ...

class SynthesizeSpeechRequest(_message.Message):
    __slots__ = ("text", "language_code", "encoding", "sample_rate_hz", "voice_name", "zero_shot_data", "custom_dictionary", "custom_configuration", "enable_word_time_offsets", "id")
    class CustomConfigurationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_CODE_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATE_HZ_FIELD_NUMBER: _ClassVar[int]
    VOICE_NAME_FIELD_NUMBER: _ClassVar[int]
    ZERO_SHOT_DATA_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    ENABLE_WORD_TIME_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    language_code: str
    encoding: _riva_audio_pb2.AudioEncoding
    sample_rate_hz: int
    voice_name: str
    zero_shot_data: ZeroShotData
    custom_dictionary: str
    custom_configuration: _containers.ScalarMap[str, str]
    enable_word_time_offsets: bool
    id: _riva_common_pb2.RequestId
    def __init__(self, text: _Optional[str] = ..., language_code: _Optional[str] = ..., encoding: _Optional[_Union[_riva_audio_pb2.AudioEncoding, str]] = ..., sample_rate_hz: _Optional[int] = ..., voice_name: _Optional[str] = ..., zero_shot_data: _Optional[_Union[ZeroShotData, _Mapping]] = ..., custom_dictionary: _Optional[str] = ..., custom_configuration: _Optional[_Mapping[str, str]] = ..., enable_word_time_offsets: _Optional[bool] = ..., id: _Optional[_Union[_riva_common_pb2.RequestId, _Mapping]] = ...) -> None: ...

class WordTiming(_message.Message):
    __slots__ = ("word", "start_time", "end_time")
    WORD_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    word: str
    start_time: int
    end_time: int
    def __init__(self, word: _Optional[str] = ..., start_time: _Optional[int] = ..., end_time: _Optional[int] = ...) -> None: ...

class SynthesizeSpeechResponseMetadata(_message.Message):
    __slots__ = ("text", "processed_text", "predicted_durations", "words")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PROCESSED_TEXT_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_DURATIONS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    processed_text: str
    predicted_durations: _containers.RepeatedScalarFieldContainer[float]
    words: _containers.RepeatedCompositeFieldContainer[WordTiming]
    def __init__(self, text: _Optional[str] = ..., processed_text: _Optional[str] = ..., predicted_durations: _Optional[_Iterable[float]] = ..., words: _Optional[_Iterable[_Union[WordTiming, _Mapping]]] = ...) -> None: ...

class SynthesizeSpeechResponse(_message.Message):
    __slots__ = ("audio", "meta", "id")
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    audio: bytes
    meta: SynthesizeSpeechResponseMetadata
    id: _riva_common_pb2.RequestId
    def __init__(self, audio: _Optional[bytes] = ..., meta: _Optional[_Union[SynthesizeSpeechResponseMetadata, _Mapping]] = ..., id: _Optional[_Union[_riva_common_pb2.RequestId, _Mapping]] = ...) -> None: ...
