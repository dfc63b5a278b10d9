"""An S3 in a process of its own: moto's, which checks signatures and permissions. It knows one user, who may do everything with S3."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3

BUCKET = "box"
NO_SERVER = "http://127.0.0.1:1"
_ALLOWED = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": ["*"]}]}


@dataclass(frozen=True)
class S3:
    """Where it is, and who may use it."""

    client: Any
    environment: Mapping[str, str]
    """The environment of a process that uses it. No server is asked for the machine's own credentials."""

    def bodies(self) -> dict[str, bytes]:
        """Every object of the bucket."""
        listed = self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return {found["Key"]: self.client.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read() for found in listed}

    def put(self, key: str, body: bytes) -> None:
        """Behind everybody's back."""
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)


@contextlib.contextmanager
def an_s3() -> Iterator[S3]:
    """A server with one bucket."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"}  # the four below; from then on everybody must sign
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            url = next(found[1] for line in process.stderr if (found := re.search(r"Running on (http://\S+)", line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()  # its log: a full pipe would stop it
            anonymous = {"region_name": "us-east-1", "endpoint_url": url, "aws_access_key_id": "none", "aws_secret_access_key": "none"}
            with contextlib.closing(boto3.client("s3", **anonymous)) as buckets:
                buckets.create_bucket(Bucket=BUCKET)
            with contextlib.closing(boto3.client("iam", **anonymous)) as people:
                people.create_user(UserName="holdfast")
                key = people.create_access_key(UserName="holdfast")["AccessKey"]
                people.put_user_policy(UserName="holdfast", PolicyName="all", PolicyDocument=json.dumps(_ALLOWED))
            told = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
            named = {name.upper(): value for name, value in told.items()}
            with contextlib.closing(boto3.client("s3", **{**anonymous, **told})) as client:
                yield S3(client, {**named, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url, "AWS_METADATA_ENDPOINT": NO_SERVER})
        finally:
            process.kill()
