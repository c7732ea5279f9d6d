/** How many times as long as on this machine tests wait: guests in user mode are slower. */
export const PATIENCE = Number(process.env.NODEWALL_PATIENCE ?? 1);
