"""The parts of sample_data/make.py."""
