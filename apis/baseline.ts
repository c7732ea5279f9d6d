/** Priority of the baseline tier, the only policies after a Pass; no other tier can have it. */
export const BASELINE_PRIORITY = 253;
