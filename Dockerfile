FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/wakeful \
    && /opt/wakeful/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[otel]'

FROM python:3.12-slim
RUN useradd --system --create-home --uid 10001 wakeful
COPY --from=build /opt/wakeful /opt/wakeful
WORKDIR /app
COPY worker.py ./
ENV PATH=/opt/wakeful/bin:$PATH PYTHONUNBUFFERED=1
USER wakeful
ENTRYPOINT ["python", "worker.py"]
CMD ["--app", "wakeful.cli.demo_app:registry"]
