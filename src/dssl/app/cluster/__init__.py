"""Ray, for when one machine is not enough. In: a saved model, or an estimator. Out: what one process would give.

It needs ``pip install 'dssl[ray]'``; nothing else imports it. Start at `mapping.py`.

    mapping    a saved model over Parquet files, or over a Ray Dataset
    workers    an estimator that learns in workers of Ray Train
"""
