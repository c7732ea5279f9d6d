import type { AddressSet, ServiceSet } from '../../apis/compiled.ts';
import type { Update } from '../../apis/stream.ts';
import { toWrittenRule } from '../../apis/wire.ts';
import { toBody } from './line.ts';
import { toAddressSetMessage } from './members-diff.ts';
import type { GroupContent } from './rule-groups.ts';

/**
 * Serialised messages. Each JavaScript object is serialised once, on first use, and cached as long
 * as it is referenced.
 */
export interface Bodies {
  addressSet(set: AddressSet): Buffer;
  serviceSet(set: ServiceSet): Buffer;
  rules(content: GroupContent): Buffer;
  /** Not cached. */
  once(update: Update): Buffer;
}

export function messageBodies(): Bodies {
  const known = new WeakMap<object, Buffer>();
  const kept = (of: object, toUpdate: () => Update): Buffer => {
    const body = known.get(of) ?? toBody(toUpdate());
    known.set(of, body);
    return body;
  };
  return {
    addressSet: (set) => kept(set, () => toAddressSetMessage(set)),
    serviceSet: (set) =>
      kept(set, () => {
        const { id, description, members } = set;
        return { type: 'serviceSet', id, description, members };
      }),
    rules: (content) =>
      kept(content, () => {
        return { type: 'rules', part: content.part, rules: content.rules.map(toWrittenRule) };
      }),
    once: toBody,
  };
}
