/* cxx_types.cc: allocations of the C++ standard library by type. The @type lines have the number of blocks of each type that
 * main and its callees allocate. The types of the blocks of a plain `new` and of malloc cannot be found out, so these blocks
 * are untyped.
 *
 * @type Point 13
 * @type std::vector<Point> 4
 * @type std::vector<std::shared_ptr<Point>> 1
 * @type std::vector<std::unique_ptr<Point>> 1
 * @type std::map<int, Point> 20
 * @type std::set<long> 6
 * @type std::list<Point> 5
 * @type std::unordered_map<int, Point> 21
 * @type std::string 7
 * @type std::deque<Point> 2
 * @type untyped 11
 */
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

struct Point {
    double x, y;
};

static volatile double sink;

__attribute__((noinline)) static void single_objects() {
    std::vector<std::shared_ptr<Point>> shared;
    std::vector<std::unique_ptr<Point>> owned;
    shared.reserve(10);
    owned.reserve(3);
    for (int i = 0; i < 10; i++) {
        shared.push_back(std::make_shared<Point>(Point{1.0 * i, 0}));
    }
    for (int i = 0; i < 3; i++) {
        owned.push_back(std::make_unique<Point>());
    }
    sink = shared[3]->x + owned[1]->y;
}

__attribute__((noinline)) static void containers() {
    for (int i = 0; i < 4; i++) {
        std::vector<Point> points;
        points.reserve(100);
        points.push_back({1, 2});
        sink = points[0].x;
    }
    std::map<int, Point> map;
    std::unordered_map<int, Point> table;
    table.reserve(64); /* one array of buckets, then a node for each element */
    for (int i = 0; i < 20; i++) {
        map[i] = {1, 2};
        table[i] = {3, 4};
    }
    std::set<long> set;
    for (long i = 0; i < 6; i++) {
        set.insert(i);
    }
    std::list<Point> list;
    for (int i = 0; i < 5; i++) {
        list.push_back({1, 2});
    }
    std::deque<Point> deque; /* an array of pointers to nodes, and a first node */
    deque.push_back({5, 6});
    sink = map[3].x + table[4].y + (double)set.size() + list.front().x + deque.front().y;
}

__attribute__((noinline)) static void strings() {
    for (int i = 0; i < 7; i++) {
        std::string text(40, (char)('a' + i));
        sink = text[i];
    }
}

__attribute__((noinline)) static void plain() {
    for (int i = 0; i < 9; i++) {
        Point *volatile point = new Point();
        sink = point->x;
        delete point;
    }
    for (int i = 0; i < 2; i++) {
        void *volatile block = std::malloc(100);
        std::free(block);
    }
}

int main() {
    single_objects();
    containers();
    strings();
    plain();
    sink = 0; /* so that the call before is not compiled to a jump */
    return 0;
}
