/** The demo's acts, in order. */

import type { Verdict } from '../../apis/flow.ts';
import { styled } from '../../lib/process/terminal.ts';
import { pause, until } from '../../test/kernel/until.ts';
import { CONNECTIONS, type DemoConnection, NODE } from './connections.ts';
import { type LineChange, lineDiff, readCounters, readRules, ruleChanges } from './rule-table.ts';
import type { Screen } from './screen.ts';
import { type DemoAgent, FLAGSHIP, type Stage } from './stage.ts';
import { attemptTrials, type ConnectionTrial, OUTCOMES, printResults, surprisesOf } from './trial.ts';

export interface Telling {
  readonly stage: Stage;
  readonly screen: Screen;
  /** Print every changed line of the nft rules. */
  readonly full: boolean;
  /** Results that are not as expected. */
  readonly surprises: string[];
}

type Account = (connection: DemoConnection) => Verdict;
const first: Account = (connection) => connection.first;
const second: Account = (connection) => connection.second;

export async function tellStory(telling: Telling): Promise<void> {
  const { stage, screen } = telling;
  await allAnswer(telling);

  screen.heading(`1  nodewall agent enforces ${FLAGSHIP} on ${NODE}`);
  screen.remark('  protect-api: all Nodes, the pods and 10.0.0.0/24 may reach TCP 6443 of the');
  screen.remark('  control-plane nodes; everything else is dropped.');
  const agent = await startAgent(telling);
  await underFlagship(telling);

  screen.heading('2  Somebody edits the policy while the agent runs');
  const rules = await readRules(stage.node);
  await changeUnderTraffic(telling, agent);
  await underChange(telling);
  await showRules(telling, rules);

  screen.heading('3  The agent stops');
  await stopAgent(telling, agent);
}

/** Proves that whatever is closed later is closed by the firewall: everybody listens. */
async function allAnswer({ stage, screen, surprises }: Telling): Promise<void> {
  const answers = await Promise.all(CONNECTIONS.map((connection) => stage.call(connection, OUTCOMES.Allow)));
  const answered = answers.filter(({ outcome }) => outcome === 'answered').length;
  const text = `Without a firewall, ${answered} of ${CONNECTIONS.length} connections are answered.`;
  screen.line(`  ${text}`);
  if (answered < CONNECTIONS.length) surprises.push(text);
}

/**
 * Enforced is when the kernel has the counter of the policy's last rule, whatever the agent says.
 */
async function startAgent({ stage, screen }: Telling): Promise<DemoAgent> {
  const agent = stage.startAgent();
  const took = await until(
    'the kernel has the rules of protect-api',
    async () => {
      if (!agent.isRunning()) throw new Error(`nodewall agent ended:\n${agent.log()}`);
      return (await readCounters(stage.node)).has('protect-api/drop-rest');
    },
    { detail: agent.log },
  );
  screen.line(`  Enforced ${(took / 1000).toFixed(2)} s after the agent was started.\n`);
  return agent;
}

async function underFlagship(telling: Telling): Promise<void> {
  const { screen } = telling;
  await tryConnections(telling, await trialsOf(telling.stage, CONNECTIONS, first), first);
  screen.remark('\n  failsafe: drop-rest names no ports, so it passes over the ports that keep a cluster');
  screen.remark('  alive (6443, 2379-2380, 10250), from Nodes. The outsider gets no such favour.');
}

/**
 * The time is taken from the first connections that end otherwise, not from what the agent says.
 */
async function changeUnderTraffic({ stage, screen }: Telling, agent: DemoAgent): Promise<void> {
  const before = await stage.policy();
  const after = changePolicy(before);
  printLines(
    screen,
    lineDiff(before.split('\n'), after.split('\n')).filter(({ sign }) => sign !== ' '),
  );
  const opened = stage.callUntil(find('outsider', 22), 'answered');
  const closed = stage.callUntil(find('office', 6443), 'refused');
  // Some tries under the old policy first.
  await pause(30);
  const saved = await stage.savePolicy(after);
  const [open, close] = await Promise.all([opened, closed]);
  if (open.outcome !== 'answered' || close.outcome !== 'refused') {
    throw new Error(`the changed policy was not enforced within 5 s; the agent says:\n${agent.log()}`);
  }
  const milliseconds = (at: number): string => styled('bold', `${Math.round(at - saved)} ms`);
  screen.line(`\n  Saved to enforced, seen by a new connection every 2 ms all along:`);
  screen.line(`  ${milliseconds(open.at)}: the outsider's SSH is answered (first at try ${open.tries})`);
  screen.line(`  ${milliseconds(close.at)}: the office is refused the API (first at try ${close.tries})\n`);
}

async function underChange(telling: Telling): Promise<void> {
  const { stage, screen } = telling;
  const trials = await trialsOf(stage, CONNECTIONS, second);
  const isChanged = ({ connection }: ConnectionTrial): boolean => connection.first !== connection.second;
  const changed = trials.filter(isChanged);
  await tryConnections(telling, changed, (one) => `${one.first} → ${one.second}`);
  const same = trials.filter((trial) => !isChanged(trial));
  const results = await Promise.all(attemptTrials(stage, same));
  const wrong = results.filter((result) => result.surprises.length > 0);
  if (wrong.length > 0) {
    const pending = wrong.map((result) => Promise.resolve(result));
    await printResults(screen, wrong, pending, second);
    telling.surprises.push(...wrong.flatMap(surprisesOf));
  }
  screen.line(`  The ${same.length} others: ${same.length - wrong.length} as before, tried again.`);
}

async function showRules({ stage, screen, full }: Telling, before: string): Promise<void> {
  const { ruleLines, others, allLines } = ruleChanges(before, await readRules(stage.node));
  screen.line(`\n  What this did to table inet nodewall (${full ? 'every line' : 'rules of the policy'}):`);
  printLines(screen, full ? allLines : ruleLines);
  if (!full) screen.remark(`  and ${others.join(', ')}; --full shows them`);
}

/** The rules stay, until cleanup. */
async function stopAgent(telling: Telling, agent: DemoAgent): Promise<void> {
  const { stage, screen, surprises } = telling;
  await agent.stop();
  const { outcome } = await stage.call(find('outsider', 6443), OUTCOMES.Drop);
  const kept = outcome === OUTCOMES.Drop;
  screen.line(`  Its rules stay: outsider to TCP 6443 ${kept ? '✓' : '✗'} ${outcome}.`);
  if (!kept) surprises.push('the rules did not stay when the agent stopped');
  await stage.cleanup();
  const left = (await readRules(stage.node)) === '' ? 'the table is gone' : 'the table is still there';
  screen.line(`  nodewall cleanup: ${left}.`);
  if (left !== 'the table is gone') surprises.push(left);
  await allAnswer(telling);
}

async function trialsOf(
  stage: Stage,
  connections: readonly DemoConnection[],
  expected: Account,
): Promise<ConnectionTrial[]> {
  const explanations = await stage.explain(connections);
  return connections.map((connection, i) => {
    const explanation = explanations[i];
    if (explanation === undefined) throw new Error('nodewall explain gave too few answers');
    return { connection, expected: expected(connection), explanation };
  });
}

async function tryConnections(
  { stage, screen, surprises }: Telling,
  trials: readonly ConnectionTrial[],
  expectedText: (connection: DemoConnection) => string,
): Promise<void> {
  const wrong = await printResults(screen, trials, attemptTrials(stage, trials), expectedText);
  surprises.push(...wrong.flatMap(surprisesOf));
}

function find(from: DemoConnection['from'], port: number): DemoConnection {
  const found = CONNECTIONS.find((one) => one.from === from && one.protocol === 'tcp' && one.port === port);
  if (found === undefined) throw new Error(`no connection from ${from} to TCP ${port}`);
  return found;
}

function printLines(screen: Screen, lines: readonly LineChange[]): void {
  const styles = { '+': 'green', '-': 'red', ' ': 'dim' } as const;
  for (const { sign, line } of lines) screen.line(`  ${styled(styles[sign], `${sign} ${line}`)}`);
}

/** The edit that the demo makes in its copy of protect-api.yaml. */
const OFFICE = `        - ipBlock: {cidr: 10.0.0.0/24}\n`;
const LAST_RULE = `    - name: drop-rest\n`;

const NEW_RULES = `    - name: allow-ssh
      action: Allow
      from: [{ipBlock: {cidr: 203.0.113.0/24}}, {ipBlock: {cidr: "2001:db8::/32"}}]
      ports: [{protocol: TCP, port: 22}]
    - name: reject-office
      action: Reject
      from: [{ipBlock: {cidr: 10.0.0.0/24}}]
`;

/** The changed policy. Throws where the example no longer has the lines that it changes. */
function changePolicy(text: string): string {
  for (const anchor of [OFFICE, LAST_RULE]) {
    if (text.split(anchor).length !== 2) {
      throw new Error(
        `protect-api.yaml must have this line once: ${anchor.trim()}; adapt ${import.meta.filename}`,
      );
    }
  }
  return text.replace(OFFICE, '').replace(LAST_RULE, `${NEW_RULES}${LAST_RULE}`);
}
