/** Seconds: for each node after the first, and at most. */
const FOR_EACH = 5;
const AT_MOST = 300;

/**
 * The usual time over which so many nodes follow a gate that is turned off (seconds): long enough
 * to take a mistake back in a large cluster, and no nuisance in a small one.
 */
export function usualSwitchOff(nodes: number): number {
  return Math.min(AT_MOST, FOR_EACH * Math.max(0, nodes - 1));
}
