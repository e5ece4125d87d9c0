/** Computes the value of an object once, and keeps it for as long as the object lives. */
export function memoize<K extends object, V extends NonNullable<unknown>>(compute: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, V>();
  return (key) => {
    const value = known.get(key) ?? compute(key);
    known.set(key, value);
    return value;
  };
}
