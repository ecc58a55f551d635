"""What feedback and judgements teach: online updates of the documents' vectors."""

from engine.learning import orag as orag
