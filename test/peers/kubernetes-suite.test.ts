import assert from 'node:assert/strict';
import { specsOf } from './kubernetes-suite.ts';

const spec = (LeafNodeText: string, State: string, RunTime = 1, LeafNodeType = 'It') => ({
  ContainerHierarchyTexts: ['[sig-network] Services'],
  LeafNodeText,
  State,
  RunTime,
  LeafNodeType,
});

describe("a report of Kubernetes' own tests", () => {
  it('names each test that began, and what came of it', () => {
    const SpecReports = [
      spec('serve', 'passed'),
      { ...spec('time out', 'timedout'), Failure: { Message: 'no answer\nat net.go' } },
      spec('need three nodes', 'skipped'),
      spec('were not chosen', 'skipped', 0),
      spec('', 'passed', 1, 'SynchronizedBeforeSuite'),
    ];
    assert.deepEqual(
      [...specsOf(JSON.stringify([{ SpecReports }]))],
      [
        ['[sig-network] Services serve', { outcome: 'passed', why: '' }],
        ['[sig-network] Services time out', { outcome: 'failed', why: 'no answer' }],
        ['[sig-network] Services need three nodes', { outcome: 'skipped', why: '' }],
      ],
    );
  });
});
