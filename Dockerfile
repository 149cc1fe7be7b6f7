# A node as a container: distroless, as nobody, with a root that may be read-only (docker run --read-only --tmpfs /tmp -v flashnode:/data).
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /src
COPY . .
# The image's own Node runs it: no install script has anything to do.
RUN npm ci --ignore-scripts && npm run -s build && npm ci --ignore-scripts --omit=dev
RUN mkdir -p /app /data && mv dist node_modules package.json LICENSE /app/

FROM gcr.io/distroless/nodejs24-debian12:nonroot
WORKDIR /app
COPY --from=build /app /app
# Nobody's: a volume takes its owner from here.
COPY --from=build --chown=65532:65532 /data /data
VOLUME ["/data"]
EXPOSE 8545
# There is no shell and no curl.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/nodejs/bin/node", "-e", "fetch('http://127.0.0.1:8545/readyz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/nodejs/bin/node", "dist/workers/package/bin.js"]
CMD ["dev", "--host", "0.0.0.0", "--allow-insecure-unlock", "--datadir", "/data"]
