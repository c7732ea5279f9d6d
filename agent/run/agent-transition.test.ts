import assert from 'node:assert/strict';
import type { NodeState } from '../../apis/compiled.ts';
import type { GateValue } from '../../apis/stream.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { envelopeOf } from '../apply/envelope.ts';
import { withControllers } from '../receive/destinations.ts';
import type { Folded } from '../receive/fold.ts';
import type { OutageState } from '../receive/outage.ts';
import { type AgentState, type Beginning, initialState, nextSteps, type Step } from './agent-state.ts';
import { type AgentEffect, type AgentEvent, transition } from './agent-transition.ts';

const LAST = nodeState(closing('last', 22));
const NOW = withUid('uid-now', nodeState(closing('now', 23)));
const NEXT = nodeState(closing('next', 24));
const OFF = { reason: 'locked out', since: '', by: '' };
const ENDPOINTS = [{ port: 6443, addresses: ['10.0.0.1'] }];

function withUid(uid: string, state: NodeState): NodeState {
  return { ...state, rules: state.rules.map((rule) => ({ ...rule, source: { ...rule.source, uid } })) };
}

/**
 * An event or a turn. `turn`: one turn of the work. `failing`: a turn in which that step fails.
 * `meanwhile`: a turn with that event while the enforcement starts.
 */
type Happening = AgentEvent | 'turn' | Turn;
interface Turn {
  readonly failing?: Step['kind'];
  readonly meanwhile?: AgentEvent;
}
/** A happening, and its expected steps and effects, in order. */
type Row = readonly [Happening, ...string[]];

const started = (holdsRules: boolean, areTried = false): AgentEvent => ({
  kind: 'started',
  holdsRules,
  areTried,
});
const folded = (state: NodeState, revision: string, enabled: GateValue = true, over = 0): AgentEvent => {
  const now: Folded = { state, enabled, ...(over === 0 ? {} : { over }), endpoints: ENDPOINTS, revision };
  return { kind: 'folded', folded: now };
};
const seen = (
  gate: GateValue | null,
  controllers: readonly string[] | null = null,
  deleted: OutageState['deleted'] = null,
): AgentEvent => ({
  kind: 'seen',
  seen: { gate, controllers, deleted },
});
const deletedPolicy = (policy: string) =>
  ({ apiGroup: 'nodewall.io', policy, uid: `uid-${policy}` }) as const;
const enforced = (state: NodeState, revision: string | null, failed: Enforced['failed'] = new Map()) =>
  ({
    kind: 'enforced',
    result: { resolved: state, envelope: envelopeOf(state, { received: state, revision }), failed },
  }) as const satisfies AgentEvent;
const timer = (name: 'patience' | 'comeBack' | 'retry' | 'switchOff'): AgentEvent => ({
  kind: 'timer',
  timer: name,
});
const WITH_CONTROLLERS = withControllers(NOW, ['10.1.0.1', '10.1.0.2']);
const CONNECTED: AgentEvent = { kind: 'connected' };
const DISCONNECTED: AgentEvent = { kind: 'disconnected' };
const PLACES: AgentState['places'] = [{ protocol: 'tcp', ports: [443, 443], peers: ['10.0.0.2'] }];
const MOVED: AgentEvent = { kind: 'moved', places: PLACES };
const SWITCHED_OFF: AgentEvent = { kind: 'switched', off: OFF };
const SWITCHED_ON: AgentEvent = { kind: 'switched', off: null };
const STOPPING: AgentEvent = { kind: 'stopping' };
const REFUSED_NOW: Enforced['failed'] = new Map([['nodewall.io/now', new Error('no')]]);
const NO_CONTROLLER = 'nothing is enforced until the controller answers';

/** The effects of every bookmark; `soon`: it is the first. */
const bookmark = (revision: string, remembers = false, soon = false): readonly string[] => [
  'ask no longer',
  `revision ${revision}`,
  ...(remembers ? ['remember'] : []),
  'endpoints 6443',
  soon ? 'report soon' : 'report',
];
const cleared = (gate: string, off: string, why: string): readonly string[] => [
  'stop',
  `clear ${why}`,
  `${gate}, ${off}`,
  'revision null',
  'say disabled',
  'report soon',
];
const FIRST_TURN = (name: string) => ['start', `enforce ${name}`, 'gate on, on', `submit ${name}`];
const IN_TURN = 'say the feature gate was turned off for all nodes, which follow one by one';
const ON_AGAIN = 'say the feature gate is on again before this node has followed';
const GONE = 'say no controller answers, and the API server has policies no more';
const GOES_ON = 'say the feature gate has no value: this node goes on enforcing';
const STAYS_OFF = 'say the feature gate has no value: this node enforces nothing, as before';
const NO_VALUE = 'say the feature gate has no value any more before this node has followed';
const OFF_AT_ONCE = 'say the feature gate was turned off for all nodes at once';
const END = ['disarm patience', 'disarm retry', 'disarm comeBack'];

/** Leads to an agent that enforces the controller's state. */
const FOLLOWING: readonly Row[] = [
  [started(true), 'ask', 'arm patience 10000'],
  [CONNECTED, 'ask no longer', 'report soon'],
  [folded(NOW, 'e.1'), ...bookmark('null', true, true), 'work'],
  ['turn', ...FIRST_TURN('now')],
  [enforced(NOW, 'e.1'), 'revision e.1', 'report soon'],
];

/** Plays the rows, and returns the agent's state after them. */
function play(beginning: Partial<Beginning>, rows: readonly Row[]): AgentState {
  let state = initialState({ isAllowed: true, last: LAST, rememberedGate: null, off: null, ...beginning });
  let did: string[] = [];
  const happened = (event: AgentEvent): void => {
    const after = transition(state, event);
    state = after.state;
    did.push(...after.effects.map(effectWords));
  };
  for (const [index, [what, ...expected]] of rows.entries()) {
    did = [];
    if (typeof what === 'object' && 'kind' in what) happened(what);
    else turn(nextSteps(state), what === 'turn' ? {} : what);
    assert.deepEqual(did, expected, `row ${index}: ${JSON.stringify(what).slice(0, 80)}`);
  }
  return state;

  function turn(steps: readonly Step[], { failing, meanwhile }: Turn): void {
    for (const step of steps) {
      did.push(stepWords(step));
      if (step.kind === 'start' && meanwhile !== undefined) happened(meanwhile);
      happened(step.kind === failing ? { kind: 'workFailed' } : done(step));
      if (step.kind === failing) break;
    }
  }
}

function done(step: Step): AgentEvent {
  switch (step.kind) {
    case 'stop':
      return { kind: 'stopped' };
    case 'start':
      return { kind: 'enforcing' };
    case 'enforce':
      return { kind: 'wanted', target: step.target };
    case 'clear':
      return { kind: 'cleared', why: step.why, removed: ['table inet nodewall'], interfaces: [] };
  }
}

const nameOf = (state: NodeState): string =>
  new Map([LAST, NOW, NEXT].map((one, i) => [one, ['last', 'now', 'next'][i]])).get(state) ?? 'made';

function stepWords(step: Step): string {
  if (step.kind === 'enforce') return `enforce ${nameOf(step.target.wanted)}`;
  return step.kind === 'clear' ? `clear ${step.why}` : step.kind;
}

function effectWords(effect: AgentEffect): string {
  switch (effect.kind) {
    case 'report':
      return effect.isSoon ? 'report soon' : 'report';
    case 'askApiServer':
      return effect.isOn ? 'ask' : 'ask no longer';
    case 'endpoints':
      return `endpoints ${effect.endpoints.map(({ port }) => port).join()}`;
    case 'submit':
      return `submit ${nameOf(effect.target.wanted)}`;
    case 'arm':
      return `arm ${effect.timer} ${effect.milliseconds}`;
    case 'disarm':
      return `disarm ${effect.timer}`;
    case 'showRevision':
      return `revision ${effect.revision}`;
    case 'showGate':
      return `gate ${effect.enabled ? 'on' : 'off'}, ${effect.isOff ? 'off' : 'on'}`;
    case 'say':
      return `say ${effect.message.split(';')[0]}`;
    default:
      return effect.kind;
  }
}

const LAST_LINE = 'say enforcing the saved state until the controller answers';
const ON_LINE = `say ${NO_CONTROLLER}`;
const MOVED_LINE = 'say the addresses of the control plane have changed';

const STORIES: readonly (readonly [string, Partial<Beginning>, ...Row[]])[] = [
  [
    'a start with rules in the kernel waits for the controller, then enforces what was saved',
    {},
    [started(true), 'ask', 'arm patience 10000'],
    ['turn'],
    [timer('patience'), LAST_LINE, 'work'],
    ['turn', ...FIRST_TURN('last')],
    [enforced(LAST, null), 'revision null', 'report soon'],
    [folded(LAST, 'e.1'), ...bookmark('e.1', true, true), 'work'],
    ['turn', 'enforce last', 'gate on, on'],
  ],
  [
    'a start without rules enforces what was saved at once',
    {},
    [started(false), 'ask', LAST_LINE, 'work', 'arm patience 10000'],
    ['turn', ...FIRST_TURN('last')],
    [folded(NOW, 'e.1'), ...bookmark('null', true, true), 'work'],
    [timer('patience')],
    ['turn', 'enforce now', 'gate on, on', 'submit now'],
  ],
  [
    'a start without rules and without a saved state waits for the controller',
    { last: null },
    [started(false), 'ask', 'arm patience 10000'],
    [timer('patience')],
    ['turn'],
    [folded(NOW, 'e.1'), ...bookmark('null', true, true), 'work'],
    ['turn', ...FIRST_TURN('now')],
  ],
  [
    'a start with rules and without a saved state leaves them alone',
    { last: null },
    [started(true), 'ask', 'arm patience 10000'],
    [timer('patience')],
    ['turn'],
  ],
  [
    'a machine with the gate off enforces nothing, whatever is said',
    { isAllowed: false, rememberedGate: true },
    [started(false), 'work', 'ask', 'arm patience 10000'],
    ['turn', ...cleared('gate off', 'on', 'machine')],
    [timer('patience')],
    [folded(NOW, 'e.1'), ...bookmark('null', true, true), 'work'],
    ['turn'],
  ],
  [
    'a gate that is remembered holds until somebody says another',
    { rememberedGate: false },
    [started(false), 'work', 'ask', 'arm patience 10000'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [timer('patience')],
    [seen(true), 'remember', 'work'],
    ['turn', ...FIRST_TURN('last')],
  ],
  [
    'the gate goes off and on by the controller',
    {},
    ...FOLLOWING,
    [folded(NOW, 'e.2', false), ...bookmark('e.2', true), 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [folded(NOW, 'e.3', false), ...bookmark('null')],
    ['turn'],
    [folded(NOW, 'e.4'), ...bookmark('null', true), 'work'],
    ['turn', ...FIRST_TURN('now')],
    [enforced(NOW, 'e.4'), 'revision e.4', 'report soon'],
    [folded(NOW, 'e.5'), ...bookmark('e.5')],
  ],
  [
    'the gate goes off over a time: the node goes on until its turn',
    { place: 0.25 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 300), IN_TURN, 'arm switchOff 75000', ...bookmark('e.2', true), 'work'],
    ['turn', 'enforce now', 'gate on, on'],
    [folded(NEXT, 'e.3', false, 310), ...bookmark('e.2'), 'work'],
    ['turn', 'enforce next', 'gate on, on', 'submit next'],
    [enforced(NEXT, 'e.3'), 'revision e.3', 'report soon'],
    [timer('switchOff'), 'remember', 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [folded(NEXT, 'e.4', false, 300), ...bookmark('null')],
    ['turn'],
  ],
  [
    'the gate goes on again before the node has followed',
    { place: 0.5 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 10), IN_TURN, 'arm switchOff 5000', ...bookmark('e.2', true), 'work'],
    [folded(NOW, 'e.3'), ON_AGAIN, 'disarm switchOff', ...bookmark('e.3', true), 'work', 'work'],
    ['turn', 'enforce now', 'gate on, on'],
  ],
  [
    'the gate goes off at once after all',
    { place: 0.5 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 10), IN_TURN, 'arm switchOff 5000', ...bookmark('e.2', true), 'work'],
    [folded(NOW, 'e.3', false), OFF_AT_ONCE, 'disarm switchOff', ...bookmark('e.3'), 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
  ],
  [
    'a node whose turn it is not waits on without a controller, until the API server says on',
    { place: 0.5 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 10), IN_TURN, 'arm switchOff 5000', ...bookmark('e.2', true), 'work'],
    [DISCONNECTED, 'ask', 'remember'],
    [seen(false), 'remember', 'work'],
    ['turn', 'enforce now', 'gate on, on'],
    [seen(true), ON_AGAIN, 'disarm switchOff', 'remember', 'work', 'work'],
    [STOPPING, ...END],
  ],
  [
    'an agent that starts with the gate on waits for its turn; one that stops meanwhile, too, the next time',
    { place: 1, rememberedGate: true },
    [started(true), 'ask', 'arm patience 10000'],
    [folded(NOW, 'e.1', false, 10), IN_TURN, 'arm switchOff 10000', ...bookmark('null', true, true), 'work'],
    ['turn', ...FIRST_TURN('now')],
    [STOPPING, ...END, 'disarm switchOff'],
  ],
  [
    'a gate without a value changes nothing on a node that enforces: policies are followed on',
    {},
    ...FOLLOWING,
    [folded(NOW, 'e.2', 'unset'), GOES_ON, ...bookmark('e.2', true), 'work'],
    ['turn', 'enforce now', 'gate on, on'],
    [folded(NEXT, 'e.3', 'unset'), ...bookmark('e.2'), 'work'],
    ['turn', 'enforce next', 'gate on, on', 'submit next'],
    [folded(NEXT, 'e.4', false), ...bookmark('e.2', true), 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [folded(NEXT, 'e.5', 'unset'), STAYS_OFF, ...bookmark('null', true), 'work'],
    ['turn'],
  ],
  [
    'a gate without a value leaves a new node without rules',
    { last: null },
    [started(false), 'ask', 'arm patience 10000'],
    [folded(NOW, 'e.1', 'unset'), STAYS_OFF, ...bookmark('null', true, true), 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [folded(NOW, 'e.2'), ...bookmark('null', true), 'work'],
    ['turn', ...FIRST_TURN('now')],
  ],
  [
    'a gate without a value keeps the rules of a node that lost what it had saved',
    { last: null },
    [started(true), 'ask', 'arm patience 10000'],
    [folded(NOW, 'e.1', 'unset'), GOES_ON, ...bookmark('null', true, true), 'work'],
    ['turn', ...FIRST_TURN('now')],
  ],
  [
    'a gate without a value changes nothing by the API server either, nor after it',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [seen('unset'), GOES_ON, 'remember', 'work'],
    ['turn', 'enforce now', 'gate on, on'],
    [seen(false), 'remember', 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [seen('unset'), STAYS_OFF, 'remember', 'work'],
    ['turn'],
    [folded(NOW, 'e.2', 'unset'), ...bookmark('null', true), 'work'],
    ['turn'],
  ],
  [
    'a policy that the API server has no more goes, as long as no controller answers; a list that fails keeps all',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [seen(true, null, []), 'remember', 'work'],
    ['turn', 'enforce now', 'gate on, on'],
    [seen(true, null, [deletedPolicy('now')]), GONE, 'remember', 'work'],
    ['turn', 'enforce made', 'gate on, on', 'submit made'],
    [seen(true, null, null), 'remember', 'work'],
    ['turn', 'enforce made', 'gate on, on'],
    [folded(NOW, 'e.2'), ...bookmark('e.2', true), 'work'],
    ['turn', 'enforce now', 'gate on, on', 'submit now'],
  ],
  [
    'a policy of the same name and another uid is not the one that was deleted',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [seen(true, null, [{ ...deletedPolicy('now'), uid: 'another' }]), GONE, 'remember', 'work'],
    ['turn', 'enforce now', 'gate on, on'],
  ],
  [
    'a node whose turn it is not goes on if the gate loses its value',
    { place: 0.5 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 10), IN_TURN, 'arm switchOff 5000', ...bookmark('e.2', true), 'work'],
    [
      folded(NOW, 'e.3', 'unset'),
      NO_VALUE,
      'disarm switchOff',
      GOES_ON,
      ...bookmark('e.3', true),
      'work',
      'work',
    ],
    ['turn', 'enforce now', 'gate on, on'],
  ],
  [
    'the gate goes off and on by the API server, and the controller has the last word',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [seen(false), 'remember', 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
    [seen(null), 'remember', 'work'],
    ['turn'],
    [seen(true), 'remember', 'work'],
    ['turn', ...FIRST_TURN('now')],
    [seen(false), 'remember', 'work'],
    [CONNECTED, 'ask no longer', 'report soon'],
    [folded(NOW, 'e.2'), ...bookmark('null', true), 'work'],
    ['turn', 'enforce now', 'gate on, on'],
  ],
  [
    'off and on while a controller is followed',
    {},
    ...FOLLOWING,
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [folded(NEXT, 'e.2'), ...bookmark('null'), 'work'],
    ['turn'],
    [SWITCHED_ON, 'report soon', 'work'],
    ['turn', ...FIRST_TURN('next')],
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
  ],
  [
    'off and on while no controller answers: waits, then enforces what it heard last',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    ['turn'],
    [seen(true), 'remember', 'work'],
    ['turn'],
    [timer('comeBack'), 'work'],
    ['turn', ...FIRST_TURN('now')],
  ],
  [
    'off and on before the first view: the patience is over, and the wait goes on',
    {},
    [started(false), 'ask', LAST_LINE, 'work', 'arm patience 10000'],
    ['turn', ...FIRST_TURN('last')],
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    [timer('patience'), LAST_LINE, 'work'],
    ['turn'],
    [timer('comeBack'), 'work'],
    ['turn', ...FIRST_TURN('last')],
  ],
  [
    'a wait after `on` ends with the view of the controller, also without news',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    [CONNECTED, 'ask no longer', 'report soon'],
    ['turn'],
    [folded(NOW, 'e.2'), ...bookmark('null', true), 'disarm comeBack', 'work'],
    ['turn', ...FIRST_TURN('now')],
  ],
  [
    'off again ends the wait after `on`',
    { off: OFF },
    [started(false), 'work', 'ask', 'work', 'arm patience 10000'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    [SWITCHED_OFF, 'report soon', 'disarm comeBack', 'work'],
    ['turn'],
    [folded(NOW, 'e.1'), ...bookmark('null', true, true), 'work'],
  ],
  [
    'off before the start is only noted, and the start obeys it',
    {},
    [SWITCHED_OFF],
    [started(true), 'work', 'ask', 'arm patience 10000'],
    ['turn', ...cleared('gate on', 'off', 'off')],
  ],
  [
    'off says of a gate that is off that it is',
    { rememberedGate: false, off: OFF },
    [started(true), 'work', 'ask', 'arm patience 10000'],
    ['turn', ...cleared('gate off', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    [timer('comeBack'), 'work'],
    ['turn', ...cleared('gate off', 'on', 'gate')],
  ],
  [
    'a controller goes away and comes back without news',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [DISCONNECTED, 'ask', 'remember'],
    ['turn', 'enforce now', 'gate on, on'],
    [CONNECTED, 'ask no longer', 'report soon'],
    [folded(NOW, 'e.1'), ...bookmark('e.1', true)],
    [folded(NOW, 'e.2'), ...bookmark('e.2')],
    [SWITCHED_OFF, 'report soon', 'work'],
    [SWITCHED_ON, 'report soon', 'work'],
  ],
  [
    'controllers that the API server knows are let in, and tried at once, until a controller answers',
    {},
    ...FOLLOWING,
    [DISCONNECTED, 'ask', 'remember'],
    [seen(null, ['10.1.0.9']), 'remember', 'work', 'retryController'],
    ['turn', 'enforce made', 'gate on, on', 'submit made'],
    [seen(null, ['10.1.0.9']), 'remember', 'work'],
    [seen(null), 'remember', 'work'],
    ['turn', 'enforce made', 'gate on, on'],
    [folded(NOW, 'e.1'), ...bookmark('e.1', true), 'work'],
    ['turn', 'enforce now', 'gate on, on', 'submit now'],
  ],
  [
    'controllers that the agent knows already are not tried at once, but in their turn',
    {},
    [started(true), 'ask', 'arm patience 10000'],
    [CONNECTED, 'ask no longer', 'report soon'],
    [folded(WITH_CONTROLLERS, 'e.1'), ...bookmark('null', true, true), 'work'],
    ['turn', ...FIRST_TURN('made')],
    [DISCONNECTED, 'ask', 'remember'],
    [seen(null, ['10.1.0.1', '10.1.0.2']), 'remember', 'work'],
    [seen(null, ['10.1.0.2']), 'remember', 'work'],
    [seen(null, ['10.1.0.2', '10.1.0.3']), 'remember', 'work', 'retryController'],
    [seen(null, ['10.1.0.3']), 'remember', 'work'],
  ],
  [
    'the failsafe list follows the control plane',
    {},
    ...FOLLOWING,
    [MOVED, 'remember', MOVED_LINE, 'work'],
    ['turn', 'enforce made', 'gate on, on', 'submit made'],
    [SWITCHED_OFF, 'report soon', 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [MOVED, 'remember'],
    [SWITCHED_ON, 'report soon', 'work'],
    ['turn', ...FIRST_TURN('made')],
  ],
  [
    'a view that cannot be followed is reported, and what is in force stays',
    {},
    ...FOLLOWING,
    [{ kind: 'unfollowable', reason: 'two rules in one place' }, 'report soon'],
    ['turn', 'enforce now', 'gate on, on'],
    [SWITCHED_OFF, 'report soon', 'work'],
    [SWITCHED_ON, 'report soon', 'work'],
    [folded(NEXT, 'e.2'), ...bookmark('e.1'), 'work'],
  ],
  [
    'a dataplane that refuses all is reported, until it takes all',
    {},
    ...FOLLOWING,
    [folded(NEXT, 'e.2'), ...bookmark('e.1'), 'work'],
    ['turn', 'enforce next', 'gate on, on', 'submit next'],
    [{ kind: 'refused', error: new Error('no memory') }, 'report soon'],
    [enforced(NEXT, 'e.2'), 'revision e.2', 'report soon'],
    [enforced(NEXT, 'e.2'), 'revision e.2', 'report'],
  ],
  [
    'a policy that fails is reported each time, and that it does no longer',
    {},
    ...FOLLOWING,
    [enforced(NOW, 'e.1', REFUSED_NOW), 'revision e.1', 'report soon'],
    [enforced(NOW, 'e.1', REFUSED_NOW), 'revision e.1', 'report soon'],
    [enforced(NOW, 'e.1'), 'revision e.1', 'report soon'],
    [enforced(NOW, 'e.1'), 'revision e.1', 'report'],
  ],
  [
    'a start of the enforcement that fails is tried again',
    {},
    [started(false), 'ask', LAST_LINE, 'work', 'arm patience 10000'],
    [{ failing: 'start' }, 'start', 'arm retry 10000'],
    [timer('retry'), 'work'],
    ['turn', ...FIRST_TURN('last')],
  ],
  [
    'a state whose submission fails is submitted again',
    {},
    ...FOLLOWING.slice(0, 4),
    [{ kind: 'workFailed' }, 'arm retry 10000'],
    [timer('retry'), 'work'],
    ['turn', 'enforce now', 'gate on, on', 'submit now'],
  ],
  [
    'a removal that fails is tried again',
    {},
    ...FOLLOWING,
    [SWITCHED_OFF, 'report soon', 'work'],
    [{ failing: 'clear' }, 'stop', 'clear off', 'arm retry 10000'],
    [timer('retry'), 'work'],
    ['turn', ...cleared('gate on', 'off', 'off')],
  ],
  [
    'the failsafe list follows a control plane that moves while the enforcement starts',
    {},
    ...FOLLOWING.slice(0, 3),
    [
      { meanwhile: MOVED },
      'start',
      'remember',
      MOVED_LINE,
      'work',
      'enforce now',
      'gate on, on',
      'submit now',
    ],
    ['turn', 'enforce made', 'gate on, on', 'submit made'],
  ],
  ['a stop before the start disarms all', {}, [STOPPING, ...END]],
  [
    'after a stop while rules are in force, nothing starts again',
    {},
    ...FOLLOWING,
    [folded(NEXT, 'e.2'), ...bookmark('e.1'), 'work'],
    [STOPPING, ...END],
    ['turn'],
    [{ kind: 'stopped' }],
    [folded(NOW, 'e.3')],
    ['turn'],
  ],
  [
    'after a stop no event arms a timer, asks anybody or saves anything',
    { place: 0.5 },
    ...FOLLOWING,
    [folded(NOW, 'e.2', false, 10), IN_TURN, 'arm switchOff 5000', ...bookmark('e.2', true), 'work'],
    [STOPPING, ...END, 'disarm switchOff'],
    [folded(NOW, 'e.3', false)],
    [DISCONNECTED],
    [seen(false)],
    [MOVED],
    [SWITCHED_ON],
    [enforced(NOW, 'e.2'), 'revision e.2', 'report'],
    [{ kind: 'stopped' }],
  ],
  [
    'after a stop, `off` removes nothing: the next agent does',
    {},
    ...FOLLOWING,
    [SWITCHED_OFF, 'report soon', 'work'],
    [STOPPING, ...END],
    ['turn'],
  ],
  [
    'a stop while the agent waits after `on` leaves the node without rules',
    { off: OFF },
    [started(false), 'work', 'ask', 'work', 'arm patience 10000'],
    ['turn', ...cleared('gate on', 'off', 'off')],
    [SWITCHED_ON, 'report soon', ON_LINE, 'arm comeBack 60000', 'retryController'],
    [STOPPING, ...END],
    ['turn'],
  ],
  [
    'a stop while a step fails arms nothing',
    {},
    [started(false), 'ask', LAST_LINE, 'work', 'arm patience 10000'],
    [{ failing: 'start', meanwhile: STOPPING }, 'start', ...END],
  ],
];

describe("the agent's transitions in a cluster", () => {
  for (const [what, beginning, ...rows] of STORIES) it(what, () => void play(beginning, rows));

  it('reports the rules in force with the last revision that the controller sent for them', () => {
    const before = play({}, FOLLOWING);
    assert.equal(before.inForce?.revision, 'e.1');
    const renewed = transition(before, folded(NOW, 'e.2')).state;
    assert.equal(renewed.inForce?.revision, 'e.2');
    const newer = transition(before, folded(NEXT, 'e.2')).state;
    assert.equal(newer.inForce?.revision, 'e.1');
  });

  it('lists the reports of each event', () => {
    const before = play({}, FOLLOWING);
    assert.equal(before.enabled, true);
    assert.equal(before.policies, 1);
    const unfollowable = transition(before, { kind: 'unfollowable', reason: 'two rules' }).state;
    assert.equal(unfollowable.viewError, 'two rules');
    assert.equal(transition(unfollowable, folded(NOW, 'e.2')).state.viewError, null);
    const isOff = play({}, [...FOLLOWING, [SWITCHED_OFF, 'report soon', 'work']]);
    assert.equal(isOff.off, OFF);
    const none = play({}, [
      ...FOLLOWING,
      [SWITCHED_OFF, 'report soon', 'work'],
      ['turn', ...cleared('gate on', 'off', 'off')],
    ]);
    assert.deepEqual([none.inForce, none.policies, none.failing, none.enabled], [null, 0, [], true]);
  });

  it('a start beside rules of an earlier run is not reported as switched off', () => {
    const { enabled } = play({}, [[started(true), 'ask', 'arm patience 10000']]);
    assert.equal(enabled, true);
    const tried = play({}, [[started(true, true), 'ask', LAST_LINE, 'work', 'arm patience 10000']]);
    assert.equal(tried.enabled, true, 'the last confirmed rules follow those that were tried');
    const off = play({ off: OFF }, [[started(true), 'work', 'ask', 'arm patience 10000']]);
    assert.equal(off.enabled, false);
  });

  it('reports the policies that are not in force when everything is refused', () => {
    const before = play({}, [
      ...FOLLOWING,
      [folded(NEXT, 'e.2'), ...bookmark('e.1'), 'work'],
      ['turn', 'enforce next', 'gate on, on', 'submit next'],
    ]);
    const error = new Error('no memory');
    const { failing } = transition(before, { kind: 'refused', error }).state;
    assert.deepEqual(
      failing.map(({ policy, reason }) => [policy, reason]),
      [['next', 'no memory']],
    );
    const stopped = transition(before, { kind: 'stopped' }).state;
    assert.deepEqual(transition(stopped, { kind: 'refused', error }).effects, []);
  });

  it('does not mutate a state', () => {
    const frozen = Object.freeze(play({}, FOLLOWING));
    for (const event of [SWITCHED_OFF, MOVED, DISCONNECTED, folded(NEXT, 'e.2'), STOPPING]) {
      assert.notEqual(transition(frozen, event).state, frozen, event.kind);
    }
  });
});
