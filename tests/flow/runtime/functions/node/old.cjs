// A CommonJS module.
exports.nested = { echo: async (event) => event };
