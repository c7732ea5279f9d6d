import type { AddressSet, ServiceSet } from '../../apis/compiled.ts';
import { bodyDigest, toBody } from '../../apis/held-view.ts';
import type { Update } from '../../apis/stream.ts';
import { addressSetMessage, serviceSetMessage, toWrittenRule } from '../../apis/wire.ts';
import type { ExtensionObject } from '../extension/extension.ts';
import type { GroupContent } from './rule-groups.ts';

/** A message as all watchers get it: only the sequence number in its prefix differs. */
export interface Line {
  /** The controller's position after this message. */
  readonly revision: string;
  /** The line from `"type"` on, with its line feed. Shared by all watchers: never changed. */
  readonly body: Buffer;
  /** Only for watchers that know it; absent: for all. */
  readonly feature?: 'egress';
}

/** The prefix of the body. `sequence` counts from 1 in each stream. */
export function linePrefix(sequence: number, { revision }: Line): string {
  return `{"sequence":${sequence},"revision":"${revision}",`;
}

/**
 * Serialised messages. Each JavaScript object is serialised once, on first use, and cached as long
 * as it is referenced.
 */
export interface Bodies {
  addressSet(set: AddressSet): Buffer;
  serviceSet(set: ServiceSet): Buffer;
  rules(content: GroupContent): Buffer;
  /** Cached if many nodes have it in common. */
  extension(object: ExtensionObject): Buffer;
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
    extension: ({ isShared, of, toMessage }) => (isShared ? kept(of, toMessage) : toBody(toMessage())),
    once: toBody,
    digest(body) {
      const digest = digests.get(body) ?? bodyDigest(body);
      digests.set(body, digest);
      return digest;
    },
  };
}
