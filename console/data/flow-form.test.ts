import assert from 'node:assert/strict';
import { flowOfForm, toFlowValues } from './flow-form.ts';

describe('the form of a flow', () => {
  it('leaves out what is empty, and has numbers where a flow has them', () => {
    const values = { direction: 'ingress', src: ' 10.0.0.7 ', dst: '', protocol: 'tcp', dstPort: '22' };
    assert.deepEqual(flowOfForm(values), {
      direction: 'ingress',
      src: '10.0.0.7',
      protocol: 'tcp',
      dstPort: 22,
    });
    assert.deepEqual(flowOfForm({ direction: 'egress', protocol: '47', interfaceGroup: 'pods' }), {
      direction: 'egress',
      protocol: 47,
      interfaceGroup: 'pods',
    });
    // The node says what is wrong with it.
    assert.deepEqual(flowOfForm({ direction: 'ingress', dstPort: 'ssh' }), {
      direction: 'ingress',
      dstPort: 'ssh',
    });
  });

  it('is filled by the flow of a link, whatever that has', () => {
    const flow = { direction: 'ingress', src: '10.0.0.7', protocol: 'tcp', dstPort: 22 };
    assert.deepEqual(flowOfForm(toFlowValues(JSON.stringify(flow))), flow);
    assert.deepEqual(toFlowValues('{"src":{"a":1},"dst":null,"other":"x"}'), {});
    for (const text of ['', 'null', '3', '[', '"x"']) assert.deepEqual(toFlowValues(text), {});
  });
});
