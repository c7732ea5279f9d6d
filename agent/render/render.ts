import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { failsafeList, judgesLocalPods } from '../../apis/exemptions.ts';
import { FAMILIES } from '../../lib/net/address.ts';
import { sameItems } from '../../lib/sharing/lists.ts';
import type { ExtraRules } from '../extension/extension.ts';
import { RULE_EXTENSION } from '../extension/rules.ts';
import { type AntiSpoofing, antiSpoofing, NO_ANTI_SPOOFING } from './anti-spoofing.ts';
import { deadlineRules } from './deadline.ts';
import { type FailsafeProtocol, failsafeRules, failsafeScope } from './failsafe.ts';
import { NamedList, UsedSets } from './incremental-list.ts';
import type { Dispatched } from './index/build.ts';
import { type Dispatch, FRONT_LEVELS, Indexer, linearDispatch, withFront } from './index/dispatch.ts';
import { LEVELS } from './index/plan.ts';
import { chainLines, protocolChain } from './nft-text.ts';
import { passChainName, REJECT_CHAIN, ruleRenderer } from './rule-chain.ts';
import { type AddressAlternative, SetMatches } from './rule-matches.ts';
import {
  type Chain,
  type L4Protocol,
  type Match,
  type NamedSet,
  type NftRule,
  plainChain,
  plainRule,
  type Ruleset,
} from './ruleset.ts';
import {
  BASE_CHAINS,
  baseChains,
  type IndexTraffic,
  masqueradeChains,
  protocolExemptions,
  TRAFFICS,
  toLocalPods,
} from './topology.ts';
import { byTraffic, type Rules, type Share, select, TRAIT } from './traits.ts';
import type { VerdictMap } from './verdict-map.ts';

/**
 * Stage 5: renders the table for the state that a node must enforce. Pure; equal states give equal
 * bytes. Cost: rules × log rules, plus the index (see dispatch.ts). Throws RenderError, with its
 * source, for a rule that can't be rendered.
 */
export function render(state: NodeState, config: Config): Ruleset {
  return renderer(config)(state);
}

/**
 * Like `render`, for a sequence of states: gives the same result, and reuses the chains of rules
 * whose CompiledRule and AddressSet are the same objects.
 * @param canLog if false, nothing in the table needs the kernel's NFLOG: rules write no records and
 * DNS answers are not copied; verdicts are the same
 * @param indexer makes the index if `dispatch` is indexed
 */
export function renderer(
  config: Config,
  canLog = true,
  indexer: RenderContext['indexer'] = new Indexer(),
): (state: NodeState) => Ruleset {
  const sets = new UsedSets();
  const setMatches = new SetMatches();
  const rulesOf = ruleRenderer(config, canLog, { sets, setMatches });
  const extraRules = RULE_EXTENSION.renderer(config);
  let failsafe: readonly NamedSet[] = [];
  let last: Last = { chains: new NamedList([]), sets: new Map(), maps: new NamedList([]) };
  return (state) => {
    const rules = rulesOf(state);
    const shares = byTraffic(rules);
    const learns = canLog && config.names.learn && rules.traits.some((own) => own & TRAIT.names);
    const nameServers = learns ? (state.nameServers ?? config.names.learnFrom) : [];
    const spoofing = antiSpoofing({ state, config, canLog, setMatches });
    const extra = extraRules(state);
    const rendered = TRAFFICS.map((traffic) =>
      renderTraffic(traffic, shares[traffic], {
        state,
        config,
        nameServers,
        indexer,
        setMatches,
        spoofing: traffic === 'ingress' ? spoofing : NO_ANTI_SPOOFING,
        extra,
      }),
    );
    const ofIndexes = [...rendered.flatMap((one) => one.sets), ...extra.sets];
    sets.change(ofIndexes, failsafe);
    failsafe = ofIndexes;
    last = { ...join(rendered, extra, config, last), sets: sets.sets() };
    return last;
  };
}

/** The previous result. */
interface Last extends Ruleset {
  readonly chains: NamedList<Chain>;
  readonly maps: NamedList<VerdictMap>;
}

interface RenderContext {
  readonly state: NodeState;
  readonly config: Config;
  /** The servers (CIDRs) of which DNS packets are copied to the agent. */
  readonly nameServers: readonly string[];
  readonly spoofing: AntiSpoofing;
  readonly extra: ExtraRules;
  readonly indexer: { readonly dispatch: Dispatch };
  readonly setMatches: SetMatches;
}

const NO_DEADLINE: ReturnType<typeof deadlineRules> = { rules: [], sets: [] };

interface IndexContext extends RenderContext {
  readonly levels: number;
  /** Whether there is no other index for the same traffic, so that there are levels to spare. */
  readonly isOnly: boolean;
}

/** Reuses the previous lists of chains and maps if their content is the same. */
function join(
  rendered: readonly RenderedTraffic[],
  extra: ExtraRules,
  config: Config,
  last: Last,
): Pick<Last, 'chains' | 'maps'> {
  // For the few chains that are made again each time: reuses the previous object if its text is the
  // same.
  const before = (chain: Chain): Chain => {
    const there = chain.fixed ? undefined : last.chains.get(chain.name);
    if (there === undefined || there === chain) return chain;
    return chainLines(there).join('\n') === chainLines(chain).join('\n') ? there : chain;
  };
  const chains = [
    ...rendered.flatMap(({ base }) => base.map(before)),
    ...masqueradeChains(config).map(before),
    ...extra.chains.map(before),
    ...rendered.flatMap(({ index }) => index.map(before)),
    REJECT_CHAIN,
  ].concat(...rendered.map(({ rules }) => rules));
  return {
    chains: listAfter(last.chains, chains),
    maps: listAfter(
      last.maps,
      sortedLike(new Set([...rendered.flatMap(({ maps }) => maps), ...extra.maps]), last.maps),
    ),
  };
}

interface RenderedTraffic {
  /** The base chain, and the chains that it calls before the index. */
  readonly base: readonly Chain[];
  readonly index: readonly Chain[];
  readonly rules: readonly Chain[];
  /**
   * The sets of the base chain and of the index; those of rules are counted separately
   * (incremental-list.ts).
   */
  readonly sets: readonly NamedSet[];
  readonly maps: readonly VerdictMap[];
}

function renderTraffic(traffic: IndexTraffic, share: Share, context: RenderContext): RenderedTraffic {
  const { state, config, nameServers, spoofing, extra } = context;
  const parts = indexParts(traffic, share);
  const levels = levelsOf(parts, traffic, context);
  const isOnly = parts.length < 2;
  const sparesPods = traffic === 'egress' && config.exemptions.localPods;
  const podParts = sparesPods && judgesLocalPods(state) ? parts.map(forLocalPods) : [];
  const indexes = [...parts, ...podParts].map((part) =>
    renderIndex(part, traffic, { ...context, levels, isOnly }),
  );
  const localPods = sparesPods ? localPodsOf(context) : [];
  const podMatches = localPods.map(({ matches }) => matches);
  const deadline =
    traffic === 'nodeport' ? NO_DEADLINE : deadlineRules(BASE_CHAINS[traffic].direction, context);
  return {
    base: [
      ...baseChains(traffic, config, {
        before: [...(traffic === 'ingress' ? extra.toNode : []), ...spoofing.first],
        first: spoofing.rules,
        indexes: parts.map(({ name }) => name),
        podIndexes: podParts.map(({ name }) => name),
        nameServers,
        deadline: deadline.rules,
        vrfs: state.vrfs ?? [],
        localPods: podMatches,
        tunnel: extra.exempt[BASE_CHAINS[traffic].direction],
      }),
      ...spoofing.chains,
    ],
    index: [
      ...indexes.flatMap(({ chains }) => chains),
      ...passChain(traffic, share, podParts.length > 0 ? { config, matches: podMatches } : null),
    ],
    rules: share.chains,
    sets: [
      ...spoofing.sets,
      ...deadline.sets,
      ...localPods.flatMap(({ set }) => set ?? []),
      ...indexes.flatMap((index) => index.sets),
    ],
    maps: indexes.flatMap(({ maps }) => maps),
  };
}

/**
 * Both families, also one that the Node has no addresses of, so that the first pod of a family
 * doesn't change rules.
 */
function localPodsOf({ state: { localPods }, setMatches }: RenderContext): AddressAlternative[] {
  return localPods === undefined ? [] : setMatches.addresses(localPods, 'daddr', FAMILIES);
}

interface IndexPart extends Rules {
  readonly name: string;
  /** Whether it is the first one for its packets: the exemptions of single protocols are there. */
  readonly isFirst: boolean;
}

/** The same without the rules that packets to local pods skip. */
function forLocalPods({ name, isFirst, ...rules }: IndexPart): IndexPart {
  return { ...select(rules, TRAIT.sparesPods, false), name: podsName(name), isFirst };
}

function podsName(index: string): string {
  return `${index}-local-pods`;
}

/**
 * One index for all rules. If some rules Pass, those of the baseline tier have an index of their
 * own, in which evaluation continues after a Pass. Traffic without rules needs no index, except
 * that ingress and egress always have one, even if empty.
 */
function indexParts(traffic: IndexTraffic, share: Rules): IndexPart[] {
  const { index: name } = BASE_CHAINS[traffic];
  if (traffic === 'nodeport' && share.entries.length === 0) return [];
  if (!(share.any & TRAIT.baseline) || !(share.any & TRAIT.passes))
    return [{ ...share, name, isFirst: true }];
  return [
    { ...select(share, TRAIT.baseline, false), name, isFirst: true },
    { ...select(share, TRAIT.baseline, true), name: baselineName(traffic), isFirst: false },
  ];
}

function baselineName(traffic: IndexTraffic): string {
  return `${BASE_CHAINS[traffic].index}-baseline`;
}

/**
 * The chain ends with accept: a packet that passed must not return to the rules behind the one that
 * passed it.
 *
 * @param pods the packets to local pods, which skip some rules; null: they need no index
 */
function passChain(
  traffic: IndexTraffic,
  { any }: Rules,
  pods: { readonly config: Config; readonly matches: readonly (readonly Match[])[] } | null,
): Chain[] {
  if (!(any & TRAIT.passes)) return [];
  const name = (any & TRAIT.baseline) === 0 ? null : baselineName(traffic);
  const toPods =
    name === null || pods === null ? [] : toLocalPods(pods.config, pods.matches, [podsName(name)]);
  const baseline = name === null ? [] : [plainRule({ kind: 'jump', chain: name })];
  const rules = [...toPods, ...baseline, plainRule({ kind: 'accept' })];
  return [plainChain(passChainName(traffic), rules)];
}

/**
 * How many chains may call each other below the first chain of an index. Around them are the base
 * chain, the entry chain, the protocol chain, possibly the front (index/dispatch.ts), a rule,
 * possibly its record chain, and the pass chain or the reject chain. If there are two indexes, a
 * packet that passes goes through both, and takes 9 to 14 of the 16 levels that the kernel allows:
 * twice the entry chain, the protocol chain and possibly the failsafe index; there the front has no
 * chains. A record chain rejects by itself (rule-chain.ts).
 */
function levelsOf(
  parts: readonly IndexPart[],
  traffic: IndexTraffic,
  { config, state }: Pick<RenderContext, 'config' | 'state'>,
): number {
  const failsafes = parts.filter((part) => hasFailsafe(part, traffic, config, state)).length;
  const records = parts.some(({ any }) => any & TRAIT.records) ? 1 : 0;
  const nodeport = traffic === 'nodeport' ? 1 : 0;
  if (parts.length < 2)
    return Math.min(LEVELS, MAX_DEPTH - (5 + nodeport + FRONT_LEVELS * failsafes + records));
  return Math.floor((MAX_DEPTH - (9 + nodeport + failsafes + records)) / 2);
}

/**
 * NFT_JUMP_STACK_SIZE in linux/netfilter/nf_tables.h: the most levels of chains that call each
 * other.
 */
const MAX_DEPTH = 16;

function hasFailsafe(
  { any }: Rules,
  traffic: IndexTraffic,
  { failsafe, sparesPlatform }: Config,
  { platform = [] }: Pick<NodeState, 'platform'>,
): boolean {
  if (traffic === 'nodeport') return false;
  const listed = failsafe.ingress.length + failsafe.egress.length + (sparesPlatform ? platform.length : 0);
  return listed > 0 && (any & TRAIT.skippable) !== 0;
}

/**
 * The index of these rules. In front of it are the exemptions of single protocols, and what sends
 * the traffic of the failsafe list to a second index, without the rules that this traffic skips.
 */
function renderIndex(
  part: IndexPart,
  traffic: IndexTraffic,
  { state, config, indexer, setMatches, levels, isOnly }: IndexContext,
): Dispatched & { readonly sets: readonly NamedSet[] } {
  const { name, entries, isFirst } = part;
  const { direction } = BASE_CHAINS[traffic];
  const dispatch: Dispatch = config.dispatch === 'linear' ? linearDispatch : indexer.dispatch;
  const address = direction === 'ingress' ? 'saddr' : 'daddr';
  const fields = { original: traffic === 'nodeport', address, levels } as const;
  const main = dispatch(name, entries, { ...fields, scope: null });
  if (traffic === 'nodeport') return { ...main, sets: [] };
  const exempt =
    isFirst && entries.length > 0 ? protocolExemptions(direction, config) : new Map<L4Protocol, NftRule[]>();
  const front = { exempt, failsafe: new Map(), hasChains: isOnly };
  if (!hasFailsafe(part, traffic, config, state)) return { ...withFront(name, main, front), sets: [] };
  const lists = {
    asked: failsafeList(config, traffic, state),
    answered: failsafeList(config, traffic === 'ingress' ? 'egress' : 'ingress', state),
  };
  const failsafeName = `${name}-failsafe`;
  const { entries: kept } = select(part, TRAIT.skippable, false);
  const second = dispatch(failsafeName, kept, { ...fields, scope: failsafeScope(lists) });
  const names = new Set(second.chains.map((chain) => chain.name));
  const to = (protocol: FailsafeProtocol): string => {
    const chain = protocolChain(failsafeName, protocol);
    return names.has(chain) ? chain : failsafeName;
  };
  const failsafe = failsafeRules(lists, direction, { state, setMatches, to });
  const isEntered = [...failsafe.keys()].some((protocol) => to(protocol) === failsafeName);
  return {
    chains: [
      ...withFront(name, main, { ...front, failsafe }).chains,
      ...second.chains.slice(isEntered ? 0 : 1),
    ],
    maps: [...main.maps, ...second.maps],
    sets: [...failsafe.values()].flatMap(({ sets }) => sets),
  };
}

interface Named {
  readonly name: string;
}

/** The previous list if this one holds the same objects in the same order. */
function listAfter<T extends Named>(last: NamedList<T>, items: readonly T[]): NamedList<T> {
  return sameItems(last.items, items) ? last : new NamedList(items, last);
}

/** Sorted by name, which is cheap if the names are the previous ones. */
function sortedLike<T extends Named>(items: ReadonlySet<T>, last: ReadonlyMap<string, T>): T[] {
  const named = new Map<string, T>();
  for (const item of items) named.set(item.name, item);
  if (named.size === last.size) {
    const found: T[] = [];
    for (const name of last.keys()) {
      const item = named.get(name);
      if (item === undefined) break;
      found.push(item);
    }
    if (found.length === named.size) return found;
  }
  return [...named.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
