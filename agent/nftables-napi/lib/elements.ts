import type { Binding, NativeElements } from './binding.ts';
import { toVerdicts, type Verdict } from './verdict.ts';

/** All elements of a set as of one moment. */
export interface Elements {
  /** Bytes of one key. */
  keyLength: number;
  /** Keys one after another in network byte order, sorted. Empty for an interval set. */
  keys: Uint8Array;
  /**
   * Pairs of first and last key, both inclusive, sorted; ranges that touch are not merged. Empty
   * unless it is an interval set.
   */
  ranges: Uint8Array;
  isInterval: boolean;
  isMap: boolean;
  /** The set has an element `*`, which stands for every other key and is not among the keys. */
  hasCatchAll: boolean;
  /** Of a verdict map: one for each key or range. Missing for every other set. */
  verdicts?: Verdict[];
}

/** The addon's answer in the API's words. */
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
