"""What a run is: its folder on disk, journal, stage graph, submission and retry policy."""
