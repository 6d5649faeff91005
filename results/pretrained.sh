# MobileNetV2 with its ImageNet weights on Imagenette, whose folder is $IMAGENETTE.
into=results/records/pretrained
for seed in 0 1 2; do
  python results/pretrained_train.py --images $IMAGENETTE --seed $seed --into $into/seed-$seed
  python results/pretrained_int8.py --images $IMAGENETTE --folder $into/seed-$seed
done
python results/pretrained_time.py --folder $into/seed-0  # alone on a machine

# The trials, by held-out photographs; a line for each goes to trials.jsonl.
# They were made before --progressive was an option, by a timeline without r0.
trial() { # trial FOLDER OPTIONS...
  python results/pretrained_train.py --images $IMAGENETTE --held-out 50 --into build/trials/"$@"
}
for rate in 0.003 0.01; do
  short="--rate $rate --epochs 4 --per-class 150"
  trial short-$rate $short --arms iht-0.9 gradual-0.9 oneshot-0.9
  trial short-$rate-progressive $short --arms iht-0.9 --progressive
  trial middle-$rate --rate $rate --epochs 4 --per-class 300 --arms iht-0.7 --progressive
  trial long-$rate --rate $rate --epochs 5 --arms iht-0.9 --progressive
done
trial short-1 --seed 1 --rate 0.003 --epochs 4 --per-class 150 --arms iht-0.9 oneshot-0.9
python results/pretrained_trials.py build/trials/* > $into/trials.jsonl
