"""What the manifests of small files have in common: zlib's preset dictionary for format 3.

Part of the format (docs/format.md): a reader that has other bytes cannot read such a manifest. What
is most common stands last, as zlib wants it.
"""

DICTIONARY = (
    b'"method":"sdnn","groups":[1,4],"negative_zeros":,"tied":","dtype":"I64","shape":[]'
    b',"form":"dense"'
    b'.num_batches_tracked":{.running_mean":{.running_var":{"values":"fp16""values":"int8"'
    b'"form":"bitmask""form":"entropy","values":"codebook4","error":0.00,"kept":'
    b'"preprocessing":{"scale":255.0,"mean":[0.],"std":[0.],"resize":null,"crop":null}'
    b',"labels":["0","1","2","3","4","5","6","7","8","9"],"config_hash":"'
    b',"sparsity":{"method":"sdnn","weights":{"fc1.weight":{"size":,"kept":'
    b'{"op":"batch_norm","inputs":["v1"],"output":"v2","mean":"bn.running_mean"'
    b',"var":"bn.running_var","eps":1e-05}{"op":"max_pool","kernel":[2,2],"stride":[2,2]'
    b',"padding":[0,0]'
    b',"dilation":[1,1],"ceil_mode":false}{"op":"flatten","inputs":["v3"],"output":"v4","start":1}'
    b'{"op":"relu","inputs":["v5"],"output":"v6"}{"op":"linear","inputs":["v7"],"output":"v8"'
    b',"weight":"fc1.weight","bias":"fc1.bias"}{"op":"conv","inputs":["x"],"output":"v0"'
    b',"weight":"conv1.weight","bias":"conv1.bias","stride":[1,1],"padding":[0,0],"dilation":[1,1]'
    b',"groups":1}],"outputs":["v9"]}},"graph":{"inputs":[{"name":"x","shape":[null,3,32,32]'
    b',"dtype":"float32"}],"nodes":[],"small":"","format":1{"tensors":{"conv1.weight":{'
    b'"dtype":"F32"'
    b',"shape":[64,32,3,3],"form":"dense","small":[32]},"fc1.bias":{"dtype":"F32","shape":['
)
