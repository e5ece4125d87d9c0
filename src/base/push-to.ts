export function pushTo<K, T>(lists: Map<K, T[]>, key: K, item: T): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [item]);
  else list.push(item);
}

/** Concatenates the lists of each key. */
export function joinLists<K, T>(maps: readonly ReadonlyMap<K, readonly T[]>[]): Map<K, T[]> {
  const out = new Map<K, T[]>();
  for (const map of maps)
    for (const [key, items] of map) {
      const list = out.get(key);
      if (list === undefined) out.set(key, [...items]);
      else for (const item of items) list.push(item);
    }
  return out;
}
