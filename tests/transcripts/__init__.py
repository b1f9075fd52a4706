"""What brokers and clients say to each other in three protocols, as texts that a test compares.

Each `*.txt` here is what a run of the real core in virtual time says, line by line. A change of a
protocol shows in them; `python -m tests.transcripts.write` writes them anew.
"""
