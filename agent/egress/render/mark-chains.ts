import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { type Chain, type Match, type NftRule, plainChain, plainRule } from '../../render/ruleset.ts';
import { type MapEntry, toVerdictMap, type VerdictMap } from '../../render/verdict-map.ts';
import { gotoChain } from './arrivals.ts';
import { slotChain, takeChain } from './classes.ts';
import { dropRule } from './counted.ts';
import { seal, translation } from './gateway.ts';
import { labelsOf, labelsOfOthers, MARK_MASK, OTHER_BITS, slotMark, takeMark } from './marks.ts';
import { EGRESS_NAMES } from './tunnel-rules.ts';

interface MarkChains {
  readonly chains: readonly Chain[];
  readonly maps: readonly VerdictMap[];
}

/**
 * The chains that write the marks, of a connection once and of each of its packets, and the map by
 * which later packets find theirs.
 */
export function markChains({ slots, takes, ended }: NodeEgress): MarkChains {
  const all = [
    ...[...slots.values()]
      .filter(({ take }) => take === 0)
      .map(({ number }) => ({
        entry: slotChain(number),
        mark: slotMark(number),
        isEnded: ended?.has(number) === true,
      })),
    ...[...takes.keys()].map((number) => ({
      entry: takeChain(number),
      mark: takeMark(number),
      isEnded: false,
    })),
  ];
  // A slot of which this node itself is the gateway.
  const own = [...slots.values()]
    .filter(({ take }) => take !== 0)
    .map(({ number, take }) => plainChain(slotChain(number), [plainRule(gotoChain(takeChain(take)))]));
  const restored = (entry: string): string => `${entry}-mark`;
  const chains = all.flatMap(({ entry, mark, isEnded }) => [
    plainChain(entry, [
      setMark('ct', mark),
      plainRule({ kind: 'setLabel', bits: labelsOf(mark) }),
      plainRule(gotoChain(restored(entry))),
    ]),
    plainChain(
      restored(entry),
      isEnded ? endedRules() : [isOthers(mark), setMark('meta', mark), plainRule({ kind: 'accept' })],
    ),
  ]);
  const map = (name: string, entries: readonly MapEntry[]): VerdictMap =>
    toVerdictMap({ name, key: 'mark', family: null, interval: false, fixed: false }, entries);
  const restore = all.map(({ entry, mark }) => ({
    first: packMark(mark),
    verdict: gotoChain(restored(entry)),
  }));
  const translate = [...takes.keys()].map((number) => ({
    first: packMark(takeMark(number)),
    verdict: translation(number),
  }));
  const sealed = [...takes.keys()].map((number) => ({
    first: packMark(takeMark(number)),
    verdict: seal(number),
  }));
  return {
    chains: [...own, ...chains],
    maps: [
      map(EGRESS_NAMES.restore, restore),
      map(EGRESS_NAMES.translate, translate),
      map(EGRESS_NAMES.sealed, sealed),
    ],
  };
}

/** Another program has given the connection the mark of another one. */
function isOthers(mark: number): NftRule {
  return plainRule(gotoChain(EGRESS_NAMES.gone), {
    match: 'ctLabel',
    bits: labelsOfOthers(mark),
    negated: false,
  });
}

/**
 * The gateway does not answer. A client of TCP hears it at once, and begins anew. All else, and TCP
 * without an answer yet, is decided anew as soon as the agent has deleted the connection.
 */
function endedRules(): NftRule[] {
  const isOpen: Match[] = [{ match: 'l4proto', protocols: ['tcp'] }, { match: 'ctEstablished' }];
  return [
    {
      ...plainRule({ kind: 'reject', with: 'tcp reset' }, ...isOpen),
      counter: true,
      comment: LOST_GATEWAY,
    },
    dropRule('not-ready', LOST_GATEWAY),
  ];
}

const LOST_GATEWAY = 'the gateway of this connection does not answer';

function setMark(of: 'ct' | 'meta', value: number): NftRule {
  return plainRule({ kind: 'setMark', to: of, from: of, mask: OTHER_BITS, value });
}

/** In the machine's byte order, as the kernel keeps marks. */
function packMark(mark: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(mark & MARK_MASK).buffer);
}
