import fc from 'fast-check';
import { egressScenario } from './test/generate/egress/egress-scenario.ts';
import { agreeOnEgress } from './test/properties/egress-agree.ts';
const [seed = 1, runs = 200, show = 4, flows = 400] = process.argv.slice(2).map(Number);
const groups = new Map<string, { n: number; text: string }>();
for (const s of fc.sample(fc.noBias(egressScenario(8, flows)), { seed, numRuns: runs })) {
  const fails = (c: typeof s): string | null => { try { agreeOnEgress(c, new Map()); return null; } catch (e) { return (e as Error).message; } };
  let message = fails(s);
  if (message === null) continue;
  // minimise
  let cur = s;
  const flowText = /flow: (.*)/.exec(message)?.[1] ?? '';
  const pick = { ...cur, flows: [JSON.parse(flowText)] };
  if (fails(pick) !== null) cur = pick; // else consistency: keep all
  const key0 = (m: string) => m.split('\n').slice(1, 3).join(' ## ').replace(/"(policy|gateway|node|address)":"[^"]*"/g, '$1').replace(/"(nodes|addresses)":\[[^\]]*\]/g, '$1').replace(/policy [^ ]+ gateway [^ ,]+/g, '').replace(/own address of .*|an address.*|\d+\.\d+.*|[0-9a-f]+:[0-9a-f:]+.*/g, '');
  const want = key0(message);
  for (let again = true; again; ) {
    again = false;
    for (let i = cur.objects.length - 1; i >= 0; i--) {
      const c = { ...cur, objects: cur.objects.filter((_, j) => j !== i) };
      let m: string | null = null; try { m = fails(c); } catch {}
      if (m !== null && m.startsWith('flow') && key0(m) === want) { cur = c; message = m; again = true; }
    }
    if (cur.flows.length > 2) for (let size = cur.flows.length >> 1; size >= 1; size >>= 1) for (let i = 0; i < cur.flows.length; i += size) {
      const c = { ...cur, flows: [...cur.flows.slice(0, i), ...cur.flows.slice(i + size)] };
      const m = fails(c); if (m !== null && key0(m) === want) { cur = c; message = m; again = true; }
    }
  }
  const g = groups.get(want) ?? { n: 0, text: message };
  if (message.length < g.text.length) g.text = message;
  g.n++;
  groups.set(want, g);
}
console.log([...groups].sort((a, b) => b[1].n - a[1].n).slice(0, show).map(([, g]) => `--- ${g.n} times\n${g.text}`).join('\n'));
