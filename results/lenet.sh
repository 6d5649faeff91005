# The LeNets on MNIST, which lies where $SKINNY_DATA says. Two cores: two runs at a time, one thread
# each. Every command goes on where it stopped.

# The search for the recipes of LeNet-300-100, on 5,000 held-out training images; no test image is
# looked at. Its records: records/lenet-search.jsonl. It was stopped before its end: the file says
# which of these runs have been made.
sweep() {
  skinny sweep lenet-300-100 --runs search --set name=lenet-300-100-search --set val_size=5000 \
    --set epochs=30 --set eval_every=30 --seeds 100 101 102 \
    --records results/records/lenet-search.jsonl "$@"
}
sweep --set r0=0.5,none,0.9821428571428571
sweep --set method=dense --set restart_lr=false,true
sweep --set sparsity=0.9166666666666666 --set r0=0.5,0.9166666666666666
sweep --set restart_lr=false
sweep --set budget=erk,uniform
sweep --set dense=1 --set sparse=5
sweep --set dense=3 --set sparse=12
sweep --set method=gradual,iterative
sweep --set weight_decay=0.0002,0.001
sweep --set lr=0.05,0.2
skinny record search/lenet-300-100-search-* --into results/records/lenet-search.jsonl

# The experiment itself, on the test images.
skinny reproduce lenet --scale paper --runs runs --records results/records/lenet.jsonl
skinny record runs/lenet-* --into results/records/lenet.jsonl
python results/write.py
