# 8-bit networks and patterns, at the scale `small`; the records that are kept of the runs; and the
# dense ones in OpenVINO (pip install openvino nncf).
skinny reproduce quantised --scale small --runs runs
skinny record runs/lenet-5-small-* runs/cifar10-airnet-5k-* --into results/records/quantised.jsonl
python results/files.py openvino results/records/openvino.jsonl runs/lenet-5-small-* runs/cifar10-airnet-5k-*
python results/write.py
