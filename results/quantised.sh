# 8-bit networks and patterns, at the scale `small`; and the records that are kept of the runs.
skinny reproduce quantised --scale small --runs runs
skinny record runs/lenet-5-small-* --into results/records/quantised.jsonl
python results/write.py
