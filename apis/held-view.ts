import { hash } from 'node:crypto';
import type { AddressSet, CompiledRule, ServiceSet } from './compiled.ts';
import { egressObjects } from './egress/messages.ts';
import type { NodeEgress } from './egress/node-egress.ts';
import { mapOf, type Of, object, text } from './schema/shape.ts';
import type { Update } from './stream.ts';
import { addressSetMessage, serviceSetMessage, toWrittenRule } from './wire.ts';

const DIGESTS = mapOf(text());

/**
 * The objects of a view that an agent holds, each with the digest of its message: address sets and
 * service sets by id, rule groups by name. With it, another controller than the one that sent the
 * view needs to send only the differences.
 */
export type HeldView = Of<typeof HELD_VIEW>;
export const HELD_VIEW = object(
  { addressSets: DIGESTS, serviceSets: DIGESTS, rules: DIGESTS },
  {
    /** Sets and buckets of egress gateways (egress/messages.ts); absent: the agent holds none. */
    egress: DIGESTS,
  },
);

export const HELD_KINDS = ['addressSets', 'serviceSets', 'rules'] as const;
export type HeldKind = (typeof HELD_KINDS)[number];

/** The size limit of a HeldView as JSON (bytes): about 30,000 objects. */
export const MOST_HELD = 2 << 20;

/**
 * The line of a message without its sequence number and revision, from `"type"` to the line feed:
 * the same for all receivers.
 */
export function toBody(update: Update): Buffer {
  return Buffer.from(`${JSON.stringify(update).slice(1)}\n`);
}

/** The first 96 bits of the SHA-256, in hexadecimal. */
export function bodyDigest(body: Buffer): string {
  return hash('sha256', body).slice(0, 24);
}

/** Computes held views; the digest of an object that has not changed is not computed again. */
export class HeldViews {
  readonly #digests = new WeakMap<object, string>();

  of(
    { addressSets, serviceSets }: { addressSets: Iterable<AddressSet>; serviceSets: Iterable<ServiceSet> },
    groups: ReadonlyMap<string, readonly CompiledRule[]>,
    egress: NodeEgress | undefined,
  ): HeldView {
    return {
      ...(egress === undefined ? {} : { egress: this.#ofEgress(egress) }),
      addressSets: Object.fromEntries(
        Iterator.from(addressSets).map((set) => [set.id, this.#digest(set, () => addressSetMessage(set))]),
      ),
      serviceSets: Object.fromEntries(
        Iterator.from(serviceSets).map((set) => [set.id, this.#digest(set, () => serviceSetMessage(set))]),
      ),
      rules: Object.fromEntries(
        groups
          .entries()
          .map(([part, rules]) => [
            part,
            this.#digest(rules, () => ({ type: 'rules', part, rules: rules.map(toWrittenRule) })),
          ]),
      ),
    };
  }

  #ofEgress(egress: NodeEgress): Readonly<Record<string, string>> {
    const objects = Iterator.from(egressObjects(egress));
    return Object.fromEntries(objects.map(({ id, of, toMessage }) => [id, this.#digest(of, toMessage)]));
  }

  #digest(of: object, toUpdate: () => Update): string {
    const known = this.#digests.get(of) ?? bodyDigest(toBody(toUpdate()));
    this.#digests.set(of, known);
    return known;
  }
}
