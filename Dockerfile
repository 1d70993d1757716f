# A small image of all programs, from source: docker build -t sotto .
# Where no registry can be reached, deploy/image builds the same image from binaries compiled outside of it.
FROM rust:1.95-slim AS build
WORKDIR /sotto
COPY . .
# Static, so that the image needs nothing beside the programs.
RUN RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked -p sottod -p sotto -p sotto-sim --target "$(rustc -vV | sed -n 's/^host: //p')" \
    && mkdir -m 700 -p /image/places/data /image/places/cluster /image/places/meet /image/places/answerers \
    && mkdir -m 700 /image/places/cluster/node1 /image/places/cluster/node2 /image/places/cluster/node3 \
        /image/places/cluster/answerers \
    && cp target/*/release/sottod target/*/release/sotto target/*/release/sotto-sim /image/

FROM scratch
COPY --from=build /image/sottod /image/sotto /image/sotto-sim /
# Places for volumes, which take over whose they are.
COPY --from=build --chown=7370:7370 /image/places /
USER 7370:7370
ENV SOTTOD_DATA=/data SOTTOD_OPERATIONS=0.0.0.0:7371
VOLUME /data
EXPOSE 7370 7371 7372
HEALTHCHECK --interval=5s --timeout=6s --start-period=60s CMD ["/sottod", "status"]
ENTRYPOINT ["/sottod"]
CMD ["serve"]
