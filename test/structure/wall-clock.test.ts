import assert from 'node:assert/strict';
import { filesBelow, readSource, withoutComments } from './source-file.ts';
import { isWithin } from './zones.ts';

const PRODUCT = filesBelow('.').filter(
  (path) =>
    path.endsWith('.ts') &&
    !path.endsWith('.test.ts') &&
    !['build', 'test', 'perf', 'agent/nftables-napi/test', 'agent/ipset-ts/test'].some((folder) =>
      isWithin(folder, path),
    ),
);

/**
 * The files that read the wall clock, which may be set at any time, and what for. Durations, time
 * limits and caches use the monotonic clock (lib/process/clock.ts).
 */
const READERS: Readonly<Record<string, string>> = {
  'agent/egress/record/binding-recorder.ts': 'a time that is shown: of a record',
  'agent/flows/flow-watch.ts': 'a time that is shown, and expiry after 7 days: of kinds of flows',
  'agent/guard/guard-file.ts': 'the limit of rollbacks, over restarts; a time set back makes none later',
  'agent/guard/guard.ts': 'a time that is shown: since when a policy is held',
  'agent/inspect/machine-facts.ts': 'a time that is shown: of the machine',
  'agent/inspect/node-data.ts': 'records of the last minutes, as a user asks for them',
  'agent/inspect/rule-counts.ts': 'a time that is shown: when a rule matched',
  'agent/names/names.ts': 'expiry: of saved names, over restarts',
  'agent/record/counters.ts': 'a time that is shown: when a rule last matched',
  'agent/record/recorder.ts': 'a time that is shown: of a record',
  'agent/run/agent-lock.ts': 'a time that is shown: since when an agent runs',
  'agent/run/agent-log.ts': 'a time that is shown: since when the controller is away',
  'agent/run/cluster-agent.ts': 'a time that is shown: of a report',
  'agent/run/established.ts': 'a time that is shown: of records of ended connections',
  'agent/run/flow-inventory.ts': 'a time that is shown, and expiry after 7 days: of kinds of flows',
  'agent/run/guarded.ts': 'a time that is shown: of a record',
  'agent/run/prometheus.ts': 'times that are shown: of views, in the metrics',
  'cli/advise.ts': 'how long the windows of the flow inventories are',
  'cli/bundle.ts': 'a time that is shown: of the bundle',
  'cli/changes.ts': 'changes since a time',
  'cli/check.ts': 'expiry: of the Lease and of certificates; clocks of nodes',
  'cli/egress/egress-status.ts': 'a time that is shown: of a reading',
  'cli/egress/egress-who.ts': 'the option --at',
  'cli/flows.ts': 'the filter --since of flows',
  'cli/guard.ts': 'a value that no annotation had before',
  'cli/off.ts': 'a time that is shown: since when the node is off',
  'cli/records.ts': 'the filter --since of records',
  'cli/rollout.ts': 'makes the value of an annotation another one',
  'cli/rules.ts': 'the option --unused',
  'cli/seen-lint.ts': 'the option --window',
  'cli/status.ts': 'how long a node has not reported',
  'controller/console/cluster-overview.ts':
    'times that are shown; which nodes are silent, by those of reports',
  'controller/console/console-requests.ts': 'a time that is shown: of a document',
  'controller/console/surveys.ts': 'a time that is shown: of a document',
  'controller/egress/owners/hold-times.ts': 'expiry: of released addresses, over leaders',
  'controller/egress/status/keeper.ts': 'a time that is shown: of a condition',
  'controller/heartbeat/heartbeat-child.ts':
    'expiry: of tokens; a time that is shown: of a renewal of the Lease',
  'controller/kubeapi/certificates/keeper.ts': 'expiry: of certificates',
  'controller/kubeapi/certificates/webhook-configurations.ts': 'expiry: of paths, the same for all replicas',
  'controller/kubeapi/lease/election.ts': 'a time that is shown: of a renewal; no replica compares it',
  'controller/metrics/node-metrics.ts': 'which nodes are silent, by the times of reports that are shown',
  'controller/publish/server.ts': 'expiry: of tokens; a time that is shown: of a report',
  'controller/publish/streams.ts': 'expiry: of tokens',
  'controller/rollout/keeper.ts': 'the pause of a step, over leaders; a time set back begins it again',
  'controller/run/agent-service.ts': 'expiry: of tokens; a time that is shown: of a report',
  'controller/run/controller-console.ts': 'times that are shown: the steps of a day',
  'controller/run/serve.ts': 'a time that is shown: in what a controller says of itself',
  'controller/status/antrea-status.ts': "expiry: of heartbeats of Antrea's controller",
  'controller/status/definition-keeper.ts': 'which of several records of an object is the newest',
  'controller/status/failure-events.ts': 'a time that is shown: of an Event',
  'controller/status/guardrail-keeper.ts': 'a time that is shown: of a condition',
  'controller/status/keeper.ts': 'a time that is shown: of a condition',
  'controller/status/startup-taints.ts': 'expiry: of reports',
  'controller/watch/cluster/reflector.ts': 'a time that is shown: of the last event, in the metrics',
  'controller/watch/cluster/transport.ts': 'a date that the API server sends (Retry-After)',
  'controller/watch/file-state.ts': 'compared with a file time: a file in the future is read again',
  'lib/process/clock.ts': 'the clock itself',
};
const WALL = /\bDate\.now\b|\bnew Date\(\)|\.date\(\)/;

describe('the wall clock', () => {
  it('is read only where something expires or a time is shown', () => {
    const found = PRODUCT.filter((path) => WALL.test(withoutComments(readSource(path))));
    assert.deepEqual(found.sort(), Object.keys(READERS));
  });
});
