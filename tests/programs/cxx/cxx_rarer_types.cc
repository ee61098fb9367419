/* cxx_rarer_types.cc: less common allocations of the C++ standard library: containers of equal
 * keys, holders of any object, reference counts outside of their objects, wide strings, nested
 * templates. The @type lines have the number of blocks of each type that main and its callees
 * allocate. The type of a block of a plain `new` cannot be found out, so such a block is untyped.
 *
 * @type std::multimap<int, Point> 2
 * @type std::multiset<int> 3
 * @type std::unordered_multiset<long> 4
 * @type std::function<int(int)> 2
 * @type std::shared_ptr<Widget> 1
 * @type Point[] 1
 * @type Widget 1
 * @type std::wstring 1
 * @type std::u16string 1
 * @type std::forward_list<Point> 1
 * @type std::vector<bool> 1
 * @type std::valarray<double> 1
 * @type std::vector<int> 3
 * @type std::map<std::string, std::vector<std::map<int, Point>>> 1
 * @type std::vector<std::map<int, Point>> 1
 * @type std::map<int, Point> 1
 * @type untyped 3
 */
#include <any>
#include <forward_list>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <unordered_set>
#include <valarray>
#include <vector>

struct Point {
    double x, y;
};
struct Widget {
    int numbers[12];
    virtual ~Widget() {}
};
struct Special : Widget {
    long more;
};
struct Named {
    long number = 7;
    ~Named() { number = 0; }
};

static volatile double sink;

__attribute__((noinline)) static void equal_keys() {
    std::multimap<int, Point> map;
    map.insert({1, {1, 2}});
    map.insert({1, {3, 4}});
    std::multiset<int> set;
    std::unordered_multiset<long> table; /* an array of buckets, and a node for each element */
    for (int i = 0; i < 3; i++) {
        set.insert(1);
        table.insert(1);
    }
    sink = (double)(map.size() + set.size() + table.size());
}

__attribute__((noinline)) static void holders() {
    struct {
        char bytes[64];
    } much = {{1}};
    std::function<int(int)> function = [much](int i) { return i + much.bytes[0]; };
    std::function<int(int)> copy = function;
    std::any any = Widget();
    std::shared_ptr<Widget> shared(new Special); /* reference counts, and an untyped object */
    std::unique_ptr<Point[]> points = std::make_unique<Point[]>(10);
    sink = function(1) + copy(2) + any.has_value() + (double)shared.use_count() + points[0].x;
}

__attribute__((noinline)) static void sequences() {
    std::wstring wide(50, L'w');
    std::u16string utf16(50, u'u');
    std::forward_list<Point> list;
    list.push_front({1, 2});
    std::vector<bool> bits(1000);
    std::valarray<double> numbers(64);
    std::priority_queue<int> queue; /* its vector grows to one, two and four elements */
    for (int i = 0; i < 3; i++) {
        queue.push(i);
    }
    sink = (double)(wide.size() + utf16.size() + bits.size()) + list.front().x + numbers[3] + queue.top();
}

__attribute__((noinline)) static void nested() {
    std::map<std::string, std::vector<std::map<int, Point>>> map;
    std::vector<std::map<int, Point>> &list = map["key"];
    list.resize(2);
    list[0][1] = {1, 2};
    sink = (double)list.size();
}

__attribute__((noinline)) static void plain() {
    Named *volatile named = new Named[4];
    sink = (double)named[3].number;
    delete[] named;
    int *volatile numbers = new int[50]();
    sink = numbers[1];
    delete[] numbers;
}

int main() {
    equal_keys();
    holders();
    sequences();
    nested();
    plain();
    sink = 0; /* so that the call before is not compiled to a jump */
    return 0;
}
