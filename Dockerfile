# A small image of the round server, from source: docker build -t sottod .
# Where no registry can be reached, deploy/image builds the same image from a binary compiled outside of it.
FROM rust:1.95-slim AS build
WORKDIR /sotto
COPY . .
# Static, so that the image needs nothing beside the program.
RUN RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --package sottod --target "$(rustc -vV | sed -n 's/^host: //p')" \
    && mkdir -p /image/data \
    && cp target/*/release/sottod /image/sottod

FROM scratch
COPY --from=build /image/sottod /sottod
COPY --from=build --chown=7370:7370 /image/data /data
USER 7370:7370
ENV SOTTOD_DATA=/data SOTTOD_OPERATIONS=0.0.0.0:7371
VOLUME /data
EXPOSE 7370 7371
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s CMD ["/sottod", "status"]
ENTRYPOINT ["/sottod"]
CMD ["serve"]
