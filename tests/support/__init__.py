"""What several test files share: made problems, oracles written from the papers, pages and processes to ask."""
