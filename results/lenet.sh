# The LeNets on MNIST and a fast network on CIFAR-10, which lie where $SKINNY_DATA says. Two cores:
# two runs at a time, one thread each. Every command goes on where it stopped.

# The search for the recipe of LeNet-300-100, at 56x and at 68x, on 5,000 held-out training images; no test
# image is looked at. Its records: records/lenet-search.jsonl.
sweep() {
  skinny sweep lenet-300-100 --runs search --set name=lenet-300-100-search --set val_size=5000 \
    --records results/records/lenet-search.jsonl "$@"
}
thirty() { sweep --seeds 100 101 102 --set epochs=30 "$@"; }
thirty --set restart_lr=true --set r0=0.5,none,0.9821428571428571
sweep --seeds 100 101 --set epochs=60 --set restart_lr=true \
  --set weight_decay=0.0005,0.0001,0.00002
forty() { sweep --seeds 100 101 --set epochs=40 --set weight_decay=0.0001 "$@"; }
forty --set restart_lr=true --set label_smoothing=0,0.1
forty --set restart_lr=true --set dense=3 --set sparse=37
forty --set restart_lr=false --set method=gradual
forty --set restart_lr=true --set dense=2 --set sparse=6 --set lr=0.1,0.05
forty --set restart_lr=true --set lr=0.2
forty --set restart_lr=true --set dense=8 --set sparse=12
thirty --set restart_lr=false --set method=sdnn,acdc,gradual
thirty --set restart_lr=false --set dense=2 --set sparse=3
thirty --set restart_lr=false --set budget=erk --set r0=0.9821428571428571,none
long() { # at 68x, 90 epochs
  sweep --seeds 100 101 --set sparsity=0.9852941176470589 --set r0=0.9852941176470589 "$@"
}
long --set restart_lr=true,false
long --set restart_lr=false --set dense=5 --set sparse=10
long --set restart_lr=false --set weight_decay=0.0001
# Of LeNet-5 at 12x, beside dense training.
twelve() {
  skinny sweep lenet-5 --runs search --set name=lenet-5-search --set val_size=5000 \
    --records results/records/lenet-search.jsonl "$@"
}
twelve --seeds 100 101 102 --set method=dense --set sparsity=0 --set restart_lr=false
at_twelve() { twelve --set sparsity=0.9166666666666666 "$@"; }
at_twelve --seeds 100 101 102 --set r0=0.9166666666666666 --set restart_lr=true,false
at_twelve --seeds 100 --set r0=0.9166666666666666 --set restart_lr=true --set restore_warmup=1
at_twelve --seeds 100 101 102 --set r0=none --set restart_lr=false
# And at 280x.
five() {
  skinny sweep lenet-5 --runs search --set name=lenet-5-search --set val_size=5000 \
    --set sparsity=0.9964285714285714 --set r0=0.9964285714285714 \
    --records results/records/lenet-search.jsonl "$@"
}
five --seeds 100 101 --set restart_lr=true
five --seeds 100 --set restart_lr=false --set method=sdnn,gradual
five --seeds 100 --set restart_lr=false --set epochs=42 --set lr=0.1
# A rate that rises from zero wherever weights are restored.
five --seeds 101 --set restart_lr=true --set restore_warmup=1
five --seeds 101 --set epochs=42 --set lr=0.1 --set restart_lr=true --set restore_warmup=3
five --seeds 101 --set epochs=42 --set lr=0.1 --set restart_lr=false --set restore_warmup=1
thirty --set restart_lr=true --set restore_warmup=1
# More epochs, other regularisation.
longest() { five --seeds 100 --set epochs=63 --set lr=0.1 "$@"; }
longest --set restart_lr=true --set restore_warmup=4 --set weight_decay=0.0005,0.0001
five --seeds 101 --set epochs=63 --set lr=0.1 --set restart_lr=true --set restore_warmup=4
five --seeds 100 --set epochs=126 --set lr=0.1 --set restart_lr=true --set restore_warmup=8
longest --set restart_lr=false --set restore_warmup=4
longest --set restart_lr=false --set restore_warmup=3 --set dense=3 --set sparse=9
longer() {
  five --seeds 101 --set epochs=42 --set lr=0.1 --set restart_lr=true --set restore_warmup=3 "$@"
}
longer --set weight_decay=0.001
longer --set label_smoothing=0.1
longer --set precision=fp32
longer --set restore=last
five --seeds 101 --set epochs=42 --set restart_lr=true --set restore_warmup=3 \
  --set optimizer=adamw --set lr=0.003 --set weight_decay=0.01
# One schedule and a cycle in every epoch, thresholding at once or from 98 %.
short() {
  skinny sweep lenet-5 --runs search --set name=lenet-5-search --set val_size=5000 \
    --set sparsity=0.9964285714285714 --set r0=0.9964285714285714,0.98 --seeds 101 \
    --set epochs=42 --set lr=0.1 --set restart_lr=false --set unit=step \
    --records results/records/lenet-search.jsonl "$@"
}
short --set dense=20 --set sparse=410
short --set dense=100 --set sparse=330
skinny record search/lenet-* --into results/records/lenet-search.jsonl

# The experiments themselves, on the test images.
skinny reproduce lenet --scale paper --runs runs --records results/records/lenet.jsonl
skinny reproduce protocol --scale paper --runs runs --records results/records/lenet.jsonl \
  results/records/mnist-small.jsonl results/records/cifar10-small.jsonl
skinny record runs/lenet-* --into results/records/lenet.jsonl
for data in mnist cifar10; do
  skinny record runs/$data-small-* --into results/records/$data-small.jsonl
done
skinny reproduce cifar10 --scale paper --runs runs --records results/records/cifar10.jsonl
skinny record runs/cifar10-airnet-* runs/cifar10-nin-* --into results/records/cifar10.jsonl

# What their packed files take and how they err, with exact and with rounded weights, and how long
# the networks of seed 0 take (the second alone on its machine); and what other codecs make of the
# same weights (benchmarks/requirements-codecs.txt).
python results/files.py pack results/records/files.jsonl runs/lenet-* runs/cifar10-airnet-*
python results/files.py time results/records/times.jsonl runs/lenet-* runs/cifar10-airnet-*
python results/files.py peers results/records/codecs.jsonl runs/lenet-*
python results/write.py
