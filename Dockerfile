# The demo on a CPU, for any machine that runs containers:
#   docker build -t eagle-demo . && docker run --rm -p 7860:7860 -v eagle-cache:/cache eagle-demo
# The converted model is kept in the volume, so only the first start needs the network.
# TORCH_INDEX may name pip's extra index with CPU builds of torch; left out, torch comes with its CUDA
# libraries, which work just as well without a GPU and take some gigabytes more.
FROM python:3.12-slim

ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 \
    GRADIO_SERVER_NAME=0.0.0.0 PORT=7860 EAGLE_CACHE=/cache HF_HOME=/cache/hub

WORKDIR /demo
COPY requirements.txt .
RUN pip install ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r requirements.txt

COPY app.py LICENSE README.md ./
COPY eagle eagle
COPY app app
COPY assets assets

# Nothing here needs root, and the code can not be changed from inside.
RUN useradd --create-home demo && mkdir /cache && chown demo /cache
USER demo
VOLUME /cache
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD python -c "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/config')"
CMD ["python", "app.py"]
