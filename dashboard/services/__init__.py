"""Services behind the pages: corpora, jobs, sweeps, feedback, memory. They import no page."""
