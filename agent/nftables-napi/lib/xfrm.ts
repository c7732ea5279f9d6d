import { NLM_F_DUMP, NLM_F_REQUEST, netlinkMessages, toMessage } from './netlink-message.ts';
import { RawSocket } from './raw-socket.ts';

/** NETLINK_XFRM of linux/netlink.h. */
const XFRM = 6;
/** linux/xfrm.h. */
const NEW_STATE = 16;
const GET_STATE = 18;

/**
 * Whether the network namespace in which it is called has IPsec states (xfrm). Needs CAP_NET_ADMIN
 * (else EPERM); throws an NftError where the kernel has no IPsec (EPROTONOSUPPORT).
 */
export async function hasIpsecStates(): Promise<boolean> {
  const socket = new RawSocket(XFRM, 'hasIpsecStates');
  try {
    for await (const chunk of socket.dump(toMessage(GET_STATE, NLM_F_REQUEST | NLM_F_DUMP, [])))
      for (const { type } of netlinkMessages(chunk)) if (type === NEW_STATE) return true;
    return false;
  } finally {
    await socket.close();
  }
}
