"""The command ``wsalign``: networks on disk, matched, merged and compared; torch is imported when a command runs."""
