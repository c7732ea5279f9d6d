import { toEgressInput } from './test/properties/egress-agree.ts';
import { compileEgress } from './controller/egress/compile-egress.ts';
import { egressExplainer } from './controller/egress/decide.ts';
import { DEFAULT_CONFIG } from './apis/config.ts';
const base = (ippools: object, n: number) => [
 {"apiVersion":"egressgateway.spidernet.io/v1beta1","kind":"EgressGateway","metadata":{"name":"eg"},"spec":{ippools,"nodeSelector":{"selector":{matchLabels:{egress:'a'}}}}},
 ...['n0'].map((name,i)=>({"apiVersion":"v1","kind":"Node","metadata":{name,"labels":{"egress":"a"}},"spec":{},"status":{"addresses":[{"type":"InternalIP","address":"10.0.0."+(i+1)}]}})),
 ...Array.from({length: n}, (_, i) => [{apiVersion:'egressgateway.spidernet.io/v1beta1',kind:'EgressPolicy',metadata:{name:'p',namespace:'s'+i},spec:{appliedTo:{podSelector:{}},egressGatewayName:'eg',egressIP:{allocatorPolicy:'rr'}}},
 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"s"+i},"spec":{"nodeName":"n0"},"status":{"phase":"Running"}}]).flat()];
for (const [label, objs] of [
 ['v4 default', base({ipv4:['1.2.3.1-1.2.3.3'],ipv4DefaultEIP:'1.2.3.1'}, 3)],
 ['no default', base({ipv4:['1.2.3.1-1.2.3.3']}, 3)],
 ['both default', base({ipv4:['1.2.3.1-1.2.3.3'],ipv6:['fd00:9::1-fd00:9::3'],ipv4DefaultEIP:'1.2.3.1',ipv6DefaultEIP:'fd00:9::1'}, 3)],
 ['v6 default', base({ipv4:['1.2.3.1-1.2.3.3'],ipv6:['fd00:9::1-fd00:9::3'],ipv6DefaultEIP:'fd00:9::1'}, 3)]] as const) {
  const input = toEgressInput(objs as object[]);
  const ex = egressExplainer(input, compileEgress(input, DEFAULT_CONFIG.egress));
  for (const dst of ['1.1.1.1', '2606:4700::1']) console.log(label, [0,1,2].map((i) => { const a = ex({traffic:'Egress',pod:`s${i}/p`,dst}); return a.address ?? a.reason; }).join(' '));
}
