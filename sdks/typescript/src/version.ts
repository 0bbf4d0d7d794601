/** The version of the package, as sent with claims. */
export const VERSION = "0.1.0";
