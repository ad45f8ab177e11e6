"""Text that is still being written: what every interface for sockets is made of.

A session (:mod:`.session`) serves one socket. Its contexts (:mod:`.context`) collect text, cut it
into utterances (:mod:`.text_buffer`) and have them spoken in order (:mod:`.speech_queue`). What
comes of that goes to a listener (:mod:`.listener`), which turns it into the messages of a protocol.
"""
