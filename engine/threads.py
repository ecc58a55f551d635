"""Threads of the libraries below NumPy and SciPy, which know nothing of torch's."""

from threadpoolctl import threadpool_limits


def limit_blas(threads: int) -> None:
    """Let NumPy's and SciPy's products run on so many threads, from now on in this process."""
    threadpool_limits(limits=threads, user_api="blas")
