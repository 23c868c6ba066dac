"""Every known data set: how to read it, whom to cite, under which licence. A checksum here is a published one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from simulacra.datasets.download import Remote
from simulacra.datasets.faces import FaceImages
from simulacra.datasets.images import CifarImages, DigitImages, HouseNumbers, IdxFamily
from simulacra.datasets.tables import EMBEDDED, EmbeddedTable, OneTable, SplitTable

UCI = "the UCI Machine Learning Repository"
CC_BY = "CC BY 4.0"

ATTACKS = {
    "normal": ("normal",),
    "dos": ("back", "land", "neptune", "pod", "smurf", "teardrop"),
    "probe": ("ipsweep", "nmap", "portsweep", "satan"),
    "r2l": ("ftp_write", "guess_passwd", "imap", "multihop", "phf", "spy", "warezclient", "warezmaster"),
    "u2r": ("buffer_overflow", "loadmodule", "perl", "rootkit"),
}
"""The five groups of the KDD Cup 99 task."""


class Readable(Protocol):
    """Gives one split as something that `simulacra.data.open_source` takes."""

    def read(self, split: str) -> Any:
        """Read "train", "test" or "all"."""
        ...


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One data set."""

    files: Readable
    rows: int
    """Training records; public, as the data sets are."""
    citation: str
    licence: str

    def read(self, split: str) -> Any:
        """Read one split."""
        return self.files.read(split)


CATALOGUE: dict[str, Entry] = {
    "adult": Entry(
        rows=32_561,
        files=EmbeddedTable(path=EMBEDDED, train_rows=32561),
        citation="B. Becker and R. Kohavi. Adult. UCI Machine Learning Repository, 1996. doi:10.24432/C5XW20",
        licence=CC_BY,
    ),
    "digits": Entry(
        rows=1_437,
        files=DigitImages(),
        citation="E. Alpaydin and C. Kaynak. Optical Recognition of Handwritten Digits. UCI, 1998. doi:10.24432/C50P49",
        licence=CC_BY,
    ),
    "mnist": Entry(
        rows=60_000,
        files=IdxFamily(
            name="mnist",
            npz="mnist.npz",
            homes=("http://yann.lecun.com/exdb/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
            checksums=(
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
        citation="Y. LeCun, C. Cortes and C. J. C. Burges. The MNIST database of handwritten digits, 1998.",
        licence="CC BY-SA 3.0",
    ),
    "fashion-mnist": Entry(
        rows=60_000,
        files=IdxFamily(
            name="fashion-mnist",
            npz="fashion_mnist.npz",
            homes=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            checksums=(
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        citation="H. Xiao, K. Rasul and R. Vollgraf. Fashion-MNIST, 2017. arXiv:1708.07747",
        licence="MIT",
    ),
    "cifar10": Entry(
        rows=50_000,
        files=CifarImages(
            remote=Remote(
                name="cifar-10-binary.tar.gz",
                urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                checksum="c32a1d4ab5d03f1284b67883e8d87530",
                algorithm="md5",
                max_bytes=256 << 20,
            )
        ),
        citation="A. Krizhevsky. Learning Multiple Layers of Features from Tiny Images, 2009.",
        licence="free for research, no formal licence",
    ),
    "celeba": Entry(
        rows=162_770,
        files=FaceImages(folder="celeba/img_align_celeba"),
        citation="Z. Liu, P. Luo, X. Wang and X. Tang. Deep Learning Face Attributes in the Wild. ICCV 2015.",
        licence="non-commercial research only",
    ),
    "celeba-gender": Entry(
        rows=162_770,
        files=FaceImages(folder="celeba/img_align_celeba", attribute="Male"),
        citation="Z. Liu, P. Luo, X. Wang and X. Tang. Deep Learning Face Attributes in the Wild. ICCV 2015.",
        licence="non-commercial research only",
    ),
    "celeba-64": Entry(
        rows=162_770,
        files=FaceImages(folder="celeba/img_align_celeba", side=64),
        citation="Z. Liu, P. Luo, X. Wang and X. Tang. Deep Learning Face Attributes in the Wild. ICCV 2015.",
        licence="non-commercial research only",
    ),
    "svhn": Entry(
        rows=73_257,
        files=HouseNumbers(
            remotes=(
                Remote(
                    name="train_32x32.mat",
                    urls=("http://ufldl.stanford.edu/housenumbers/train_32x32.mat",),
                    checksum="e26dedcc434d2e4c54c9b2d4a06d8373",
                    algorithm="md5",
                    max_bytes=256 << 20,
                ),
                Remote(
                    name="test_32x32.mat",
                    urls=("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
                    checksum="eb5a983be6a315427106f1b164d9cef3",
                    algorithm="md5",
                    max_bytes=128 << 20,
                ),
            )
        ),
        citation="Y. Netzer et al. Reading Digits in Natural Images with Unsupervised Feature Learning. 2011.",
        licence="non-commercial use",
    ),
    "census": Entry(
        rows=199_523,
        files=SplitTable(name="census", origin=UCI),
        citation="Census-Income (KDD). UCI Machine Learning Repository, 2000. doi:10.24432/C5N30T",
        licence=CC_BY,
    ),
    "credit": Entry(
        rows=227_846,
        files=OneTable(name="credit", file="credit.parquet", origin="Kaggle, credit card fraud detection"),
        citation="A. Dal Pozzolo et al. Calibrating probability with undersampling, 2015.",
        licence="DbCL 1.0",
    ),
    "covtype": Entry(
        rows=464_810,
        files=OneTable(name="covtype", file="covtype.parquet", origin=UCI),
        citation="J. Blackard. Covertype. UCI Machine Learning Repository, 1998. doi:10.24432/C50K5N",
        licence=CC_BY,
    ),
    "intrusion": Entry(
        rows=395_217,
        files=OneTable(
            name="intrusion",
            file="intrusion.parquet",
            origin=f"KDD Cup 99, 10 percent, {UCI}",
            grouped=("label", {attack: group for group, attacks in ATTACKS.items() for attack in attacks}),
        ),
        citation="S. Stolfo et al. KDD Cup 1999 Data. UCI Machine Learning Repository, 1999. doi:10.24432/C51C7N",
        licence=CC_BY,
    ),
    "cervical": Entry(
        rows=687,
        files=OneTable(name="cervical", file="cervical.parquet", origin=UCI),
        citation="K. Fernandes et al. Cervical Cancer (Risk Factors). UCI, 2017. doi:10.24432/C5Z310",
        licence=CC_BY,
    ),
    "isolet": Entry(
        rows=1_248,
        files=OneTable(name="isolet", file="isolet_subset.parquet", origin=UCI),
        citation="R. Cole and M. Fanty. ISOLET. UCI Machine Learning Repository, 1991. doi:10.24432/C51G69",
        licence=CC_BY,
    ),
}
