// Wants what is not there.
exports.handler = require("absent-package");
