# Table 2 of the paper on 1,000 images of CIFAR-100, and table 4 on the photographs of Imagenette,
# which lie where $SKINNY_DATA says. Two cores: two runs at a time, one thread each.
skinny reproduce table2 --scale small --runs runs --records results/records/cifar100-small.jsonl
skinny reproduce table4 --scale small --runs runs --records results/records/imagenette-small.jsonl

# The records that are kept of the runs.
skinny record runs/cifar100-small-* --into results/records/cifar100-small.jsonl
skinny record runs/imagenette-quick-* --into results/records/imagenette-small.jsonl
python results/write.py
