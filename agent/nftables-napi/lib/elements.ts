import type { Binding, NativeElements } from './binding.ts';
import { toVerdicts, type Verdict } from './verdict.ts';

/** All elements of a set at one moment. */
export interface Elements {
  /** Length of a key in bytes. */
  keyLength: number;
  /** Concatenated keys in network byte order, sorted. Empty for an interval set. */
  keys: Uint8Array;
  /**
   * Pairs of first and last key, both inclusive, sorted; adjacent ranges are not merged. Empty
   * unless it is an interval set.
   */
  ranges: Uint8Array;
  isInterval: boolean;
  isMap: boolean;
  /** The set has an element `*`, which matches every other key and is not among the keys. */
  hasCatchAll: boolean;
  /** For a verdict map: one per key or range. Absent for every other set. */
  verdicts?: Verdict[];
}

/** Converts the addon's answer. */
export function toElements(native: NativeElements, binding: Binding): Elements {
  const { interval, map, object } = binding.setFlags;
  return {
    keyLength: native.keyLength,
    keys: native.keys,
    ranges: native.ranges,
    isInterval: (native.flags & interval) !== 0,
    isMap: (native.flags & (map | object)) !== 0,
    hasCatchAll: native.catchAll,
    ...(native.isVerdictMap ? { verdicts: toVerdicts(native, binding) } : {}),
  };
}
