#!/bin/sh
# Call every REST route once, by curl. The answers are written to the current folder.
#
# sh examples/api/curl.sh
# sh examples/api/curl.sh --url https://speech.example.org
#
# The environment variable CHATTTS_API_KEY holds the key, if the server needs one.
set -eu

url=http://127.0.0.1:8000
while [ $# -gt 0 ]; do
    case $1 in
        --url) url=${2:?--url needs an address}; shift 2 ;;
        *) sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"; [ "$1" = --help ]; exit ;;
    esac
done

ask() {  # path, then curl's arguments
    path=$1; shift
    printf '\n%s\n' "$path" >&2
    curl --fail-with-body --silent --show-error "$url$path" \
        ${CHATTTS_API_KEY:+--header "Authorization: Bearer $CHATTTS_API_KEY"} "$@"
}
json='Content-Type: application/json'

# The state of the server.
ask /health
ask /ready
ask /v1/status
ask /metrics --output metrics.txt
ask /openapi.json --output openapi.json
ask / --output page.html

# Its models, voices and tags.
ask /v1/models
ask /v1/models/tts-1
ask /v1/audio/models
ask /v1/audio/voices
ask /v1/audio/tags
ask /v1/test

# A blend of voices as a file; requests may name the blend itself.
ask /v1/audio/voices/combine --header "$json" --output blend.pt --data '"alloy+echo"'

# The simplest way: a text in the URL or in a form.
ask '/tts?text=Hello&seed=7' --output hello.wav
ask /tts --data-urlencode 'text=Good morning.' --data format=mp3 --output morning.mp3

# As Open Voice OS's plugin asks, by both of its protocols.
ask '/v2/synthesize?utterance=Hello&voice=alloy' --output second.wav
ask '/synthesize/Hello?voice=alloy' --output first.wav

# OpenAI's API: the whole file; a stream; a stream of events.
ask /v1/audio/speech --header "$json" --output whole.flac --data '
    {"input": "We went home, and it was a good day.", "voice": "alloy", "seed": 7,
     "response_format": "flac", "stream": false}'
ask /v1/audio/speech --header "$json" --no-buffer --output stream.pcm --data '
    {"input": "We went home.", "response_format": "pcm", "speed": 1.25}'
ask /v1/audio/speech --header "$json" --no-buffer --output events.txt --data '
    {"input": "We went home.", "response_format": "opus", "stream_format": "sse"}'
tail -n 2 events.txt

# When each word is spoken: in a JSON object, and as Kokoro-FastAPI tells it.
ask /v1/audio/speech --header "$json" --output words.json --data '
    {"input": "We went home.", "timestamp_granularities": ["word"]}'
ask /dev/captioned_speech --header "$json" --no-buffer --output captions.jsonl --data '
    {"input": "We went home.", "voice": "alloy"}'

# Many texts in one request.
ask /v1/audio/speech/batch --header "$json" --output batch.json --data '
    {"items": [{"input": "One."}, {"input": "Two."}], "response_format": "opus", "seed": 7}'

# A script as a job: a book, a dialogue or subtitles as one file.
ask /v1/audio/scripts --header "$json" --output script.json --data '
    {"script": "Anna: Good morning.\nBob: Good night.", "voices": {"Anna": "alloy", "Bob": "echo"},
     "response_format": "m4b", "subtitles": "srt"}'
id=$(sed 's/.*"id":"\([^"]*\)".*/\1/' script.json)
ask "/v1/audio/scripts/$id/events" --no-buffer --output progress.txt
ask /v1/audio/scripts
ask "/v1/audio/scripts/$id"
ask "/v1/audio/scripts/$id/audio" --output script.m4b
ask "/v1/audio/scripts/$id/subtitles" --output script.srt
ask "/v1/audio/scripts/$id" --request DELETE

# Put breaks and laughs into a text (for models trained to do so). Both URLs do the same.
ask /v1/audio/refine --header "$json" --data '{"input": "That is very funny.", "laugh": 1}'
ask /refine --header "$json" --data '{"input": "Well, maybe.", "oral": 2, "break": 4}'

# Upload a voice from a recording of 1 to 30 s, and delete it.
ask /v1/audio/voices --form name=example --form audio_sample=@whole.flac \
    --form 'ref_text=We went home, and it was a good day.' \
    --form 'consent=Made by a computer; nobody has to agree.'
ask /v1/audio/voices/example --request DELETE
echo
