import type { AddressSet, ServiceSet } from '../../apis/compiled.ts';
import { EGRESS_SETS } from '../../apis/egress/entries.ts';
import type { EgressObject } from '../../apis/egress/messages.ts';
import { digestOf, toBody } from '../../apis/held-view.ts';
import type { Update } from '../../apis/stream.ts';
import { addressSetMessage, serviceSetMessage, toWrittenRule } from '../../apis/wire.ts';
import type { GroupContent } from './rule-groups.ts';

/**
 * Serialised messages. Each JavaScript object is serialised once, on first use, and cached as long
 * as it is referenced.
 */
export interface Bodies {
  addressSet(set: AddressSet): Buffer;
  serviceSet(set: ServiceSet): Buffer;
  rules(content: GroupContent): Buffer;
  /**
   * A set of egress gateways, which many nodes have in common, or a bucket, which is not cached.
   */
  egress(object: EgressObject): Buffer;
  /** Not cached. */
  once(update: Update): Buffer;
  /** The digest of one of the bodies above, as in a HeldView. */
  digest(body: Buffer): string;
}

export function messageBodies(): Bodies {
  const known = new WeakMap<object, Buffer>();
  const digests = new WeakMap<Buffer, string>();
  const kept = (of: object, toUpdate: () => Update): Buffer => {
    const body = known.get(of) ?? toBody(toUpdate());
    known.set(of, body);
    return body;
  };
  return {
    addressSet: (set) => kept(set, () => addressSetMessage(set)),
    serviceSet: (set) => kept(set, () => serviceSetMessage(set)),
    rules: (content) =>
      kept(content, () => {
        return { type: 'rules', part: content.part, rules: content.rules.map(toWrittenRule) };
      }),
    egress({ id, of, toMessage }) {
      return EGRESS_SETS.some((set) => set === id) ? kept(of, toMessage) : toBody(toMessage());
    },
    once: toBody,
    digest(body) {
      const digest = digests.get(body) ?? digestOf(body);
      digests.set(body, digest);
      return digest;
    },
  };
}
