"""Numbers as printed in the paper: cited, never measured by us and never mixed with what is.

In its two CIFAR tables the columns of errors carry swapped headings: errors "without" data
augmentation are the lower ones there, and the text discusses them the other way round. Here each
number stands under the right heading.
"""

from typing import NamedTuple

SOURCE = (
    "Jin, Yuan, Feng, Yan: Training Skinny Deep Neural Networks with Iterative Hard Thresholding "
    "Methods, 2016"
)
SWAPPED = (
    "The paper's headings for errors with and without augmentation are swapped; corrected here."
)


class Cited(NamedTuple):
    """A row of a published table: millions of weights as printed; error in per cent, and its
    standard error where there is one; the size of the weights' code."""

    model: str
    weights: str
    error: float
    se: float | None = None
    kilobytes: float | None = None


def _columns(
    rows: tuple[tuple[str, str, float | None, float | None], ...],
) -> tuple[tuple[Cited, ...], tuple[Cited, ...]]:
    """(without, with) augmentation."""
    plain = tuple(Cited(m, w, error) for m, w, error, _ in rows if error is not None)
    augmented = tuple(Cited(m, w, error) for m, w, _, error in rows if error is not None)
    return plain, augmented


# model, weights in millions, error without augmentation, error with flips
CIFAR10_PLAIN, CIFAR10_FLIPS = _columns(
    (
        ("NIN", "0.97", 10.41, 8.81),
        ("DSN", "0.97", 9.69, 7.97),
        ("RCNN-96", "0.67", 9.31, 7.37),
        ("RCNN-128", "1.19", 8.98, 7.24),
        ("RCNN-160", "1.86", 8.69, 7.09),
        ("FitNet", "~2.5", None, 8.39),
        ("Highway", "2.3", None, 7.54),
        ("ResNet", "0.27", None, 8.75),
        ("ResNet", "1.7", None, 6.43),
        ("NIN_1/2", "0.49", 10.50, 9.20),
        ("NIN_2", "3.92", 9.2, 8.17),
        ("SDNN-2x", "0.49", 8.70, 6.91),
        ("SDNN-10x", "0.1", None, 9.09),
        ("SDNN-20x", "0.05", None, 10.53),
        ("SDNN_2-2x", "1.79", 8.43, 6.45),
    )
)

CIFAR100_PLAIN, CIFAR100_FLIPS = _columns(
    (
        ("Maxout", ">5", 38.57, None),
        ("Prob. maxout", ">5", 38.14, None),
        ("NIN (its authors)", ">5", 35.68, None),
        ("NIN", "0.97", 35.96, 32.70),
        ("DSN", "0.97", 34.57, None),
        ("dasNet", "-", 34.50, None),
        ("RCNN-96", "0.67", 34.18, None),
        ("RCNN-128", "1.19", 32.59, None),
        ("RCNN-160", "1.86", 31.75, None),
        ("APL", "0.97", 34.40, 30.83),
        ("SReLU", "0.97", 31.23, 29.91),
        ("NIN_2", "3.81", 31.29, 29.12),
        ("SDNN-2x", "0.49", 30.50, 29.51),
        ("SDNN_2-2x", "1.79", 29.13, 27.14),
    )
)

MNIST = (
    Cited("Stochastic pooling", "-", 0.47),
    Cited("Maxout", "0.42", 0.45),
    Cited("NIN", "0.35", 0.47),
    Cited("DSN", "0.35", 0.39),
    Cited("SReLU", "0.35", 0.35),
    Cited("RCNN-96", "0.67", 0.31),
    Cited("SDNN-2x", "0.18", 0.19),
)

IMAGENET_TOP5 = (
    Cited("AlexNet (Caffe)", "60", 19.56),
    Cited("Han & Pool", "6.7", 19.67),
    Cited("Mem. Bound (Collins & Kohli)", "15", 19.6),
    Cited("SDNN-2x", "30", 17.90),
    Cited("SDNN-4x", "15", 18.75),
)

# Figure 1, as far as its caption and the text give numbers: NIN on CIFAR-10 with flips
FIGURE1 = (
    Cited("NIN (r = 0)", "0.97", 8.81),
    Cited("SDNN, r = 0.5", "0.49", 6.91),
    Cited("SDNN, r = 0.9", "0.1", 9.09),
)

# LeNet-300-100 and LeNet-5 (Caffe). Where a ratio or a share was printed, its name has it and the
# weights are 0.2662 and 0.4305 millions divided by it.
LENET_SOURCES = (
    "Han, Pool, Tran, Dally: Learning both Weights and Connections for Efficient Neural Networks, "
    "2015; Han, Mao, Dally: Deep Compression, 2016; Guo, Yao, Chen: Dynamic Network Surgery for "
    "Efficient DNNs, 2016; Ullrich, Meeds, Welling: Soft Weight-Sharing for Neural Network "
    "Compression, 2017; Molchanov, Ashukha, Vetrov: Variational Dropout Sparsifies Deep Neural "
    "Networks (Sparse VD), 2017; Lee, Ajanthan, Torr: SNIP, 2019; Dettmers, Zettlemoyer: Sparse "
    "Networks from Scratch (Sparse Momentum), 2019, as in its repository; Oktay, Ballé, Singh, "
    "Shrivastava: Scalable Model Compression by Entropy Penalized Reparameterization, 2020, as in "
    "TensorFlow Compression's tutorial; Havasi, Peharz, Hernández-Lobato: Minimal Random Code "
    "Learning (MIRACLE), 2019; Reagen et al.: Weightless, 2018, and Louizos, Ullrich, Welling: "
    "Bayesian Compression for Deep Learning, 2017, both as in MIRACLE's table, the latter's size "
    "computed there from a ratio"
)

LENET_300_100 = (
    Cited("dense, Han et al. 2015", "0.266", 1.64),
    Cited("Han et al. 2015, 12x", "0.022", 1.59),
    Cited("Deep Compression 2016, quantised, 27 kB", "0.022", 1.58, kilobytes=27.0),
    Cited("dense, Dynamic Network Surgery 2016", "0.266", 2.28),
    Cited("Dynamic Network Surgery 2016, 56x", "0.0048", 1.99),
    Cited("Soft weight sharing 2017, 64x, quantised", "-", 1.94),
    Cited("Sparse VD 2017, 68x", "0.0039", 1.92),
    Cited("dense, SNIP 2019", "0.266", 1.7),
    Cited("SNIP 2019, 5 %", "0.013", 1.6),
    Cited("SNIP 2019, 2 %", "0.0053", 2.4),
    Cited("dense, Sparse Momentum 2019", "0.266", 1.34, 0.011),
    Cited("Sparse Momentum 2019, 8.3 %", "0.022", 1.43, 0.02),
    Cited("Sparse Momentum 2019, 5 %", "0.013", 1.53, 0.02),
    Cited("Sparse Momentum 2019, 1.8 %", "0.0048", 1.98, 0.053),
    Cited("Sparse Momentum 2019, 1.5 %", "0.0040", 2.05, 0.032),
    Cited("Sparse Momentum 2019, 1 %", "0.0027", 2.36, 0.044),
    Cited("dense, entropy-penalised 2020", "0.266", 1.6),
    Cited("entropy-penalised 2020, quantised, 8.56 kB", "-", 1.9, kilobytes=8.56),
)

LENET_5 = (
    Cited("dense, Han et al. 2015", "0.431", 0.80),
    Cited("Han et al. 2015, 12x", "0.036", 0.77),
    Cited("Deep Compression 2016, quantised, 44 kB", "0.036", 0.74, kilobytes=44.0),
    Cited("dense, Dynamic Network Surgery 2016", "0.431", 0.91),
    Cited("Dynamic Network Surgery 2016, 108x", "0.0040", 0.91),
    Cited("Soft weight sharing 2017, 162x, quantised", "-", 0.97),
    Cited("Sparse VD 2017, 280x", "0.0015", 0.75),
    Cited("dense, SNIP 2019", "0.431", 0.9),
    Cited("SNIP 2019, 2 %", "0.0086", 0.8),
    Cited("SNIP 2019, 1 %", "0.0043", 1.1),
    Cited("dense, Sparse Momentum 2019", "0.431", 0.58, 0.01),
    Cited("Sparse Momentum 2019, 9.3 %", "0.040", 0.64, 0.03),
    Cited("Sparse Momentum 2019, 5 %", "0.022", 0.69, 0.021),
    Cited("Sparse Momentum 2019, 2 %", "0.0086", 0.76, 0.022),
    Cited("Sparse Momentum 2019, 1 %", "0.0043", 0.83, 0.04),
    Cited("Sparse Momentum 2019, 0.9 %", "0.0039", 0.89, 0.033),
    Cited("Sparse Momentum 2019, 0.5 %", "0.0022", 1.14, 0.024),
    Cited("Sparse Momentum 2019, 0.4 %", "0.0017", 1.40, 0.088),
    Cited("dense, entropy-penalised 2020", "0.431", 0.7),
    Cited("entropy-penalised 2020, quantised, 2.84 kB", "-", 1.0, kilobytes=2.84),
    Cited("Weightless 2018, quantised, 4.52 kB", "-", 1.0, kilobytes=4.52),
    Cited("Bayesian Compression 2017, quantised, 2.3 kB", "-", 1.0, kilobytes=2.3),
    Cited("dense, MIRACLE 2019", "0.431", 0.7),
    Cited("MIRACLE 2019, random codes, 3.03 kB", "-", 0.69, kilobytes=3.03),
    Cited("MIRACLE 2019, random codes, 1.52 kB", "-", 0.96, kilobytes=1.52),
)
