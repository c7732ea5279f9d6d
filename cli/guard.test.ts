import assert from 'node:assert/strict';
import { tryingNodes } from './guard.ts';

describe('nodes that try rules', () => {
  const tried = (policy: string) => ({ apiGroup: 'nodewall.io' as const, policy, generation: 2 });
  const views = [
    { metadata: { name: 'w-2' }, status: { tried: [tried('b'), tried('a')] } },
    { metadata: { name: 'w-3' }, status: { tried: [] } },
    { metadata: { name: 'w-4' } },
    { metadata: { name: 'w-1' }, status: { tried: [tried('a')] } },
  ];

  it('are named in order, with the pod of their agent', () => {
    const pods = [
      { metadata: { name: 'agent-y' }, spec: { nodeName: 'w-2' } },
      { metadata: { name: 'agent-x' }, spec: { nodeName: 'w-1' } },
    ];
    assert.deepEqual(tryingNodes(views, pods), [
      {
        node: 'w-1',
        policies: ['nodewall.io/a'],
        command: 'kubectl -n nodewall-system exec agent-x -- nodewall confirm',
      },
      {
        node: 'w-2',
        policies: ['nodewall.io/a', 'nodewall.io/b'],
        command: 'kubectl -n nodewall-system exec agent-y -- nodewall confirm',
      },
    ]);
  });

  it('have a command that looks for the pod where pods cannot be read', () => {
    const [first] = tryingNodes(views, null);
    assert.equal(
      first?.command,
      'kubectl -n nodewall-system exec "$(kubectl -n nodewall-system get pod -l app.kubernetes.io/name=nodewall-agent --field-selector spec.nodeName=w-1 -o name)" -- nodewall confirm',
    );
  });
});
