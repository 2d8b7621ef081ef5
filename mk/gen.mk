# Committed generated code. Protocol code is generated at build time (mk/build.mk).
